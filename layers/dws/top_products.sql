-- layers/dws/top_products.sql
CREATE MATERIALIZED TABLE dws.top_products (
  PRIMARY KEY (logdate, rank),
  CONSTRAINT top_ten EXPECT (rank BETWEEN 1 AND 10) ON VIOLATION FAIL,
  CONSTRAINT sold EXPECT (quantity > 0) ON VIOLATION WARN
)
COMMENT 'The ten products that sold for most in each hour'
PARTITIONED BY (logdate)
WITH ('partition.fields.logdate.date-formatter' = 'yyyyMMddHH')
FRESHNESS = INTERVAL '1' MINUTE
AS
SELECT logdate, rank, product_id, product_name, category, quantity, amount
FROM (
  SELECT
    logdate, product_id, product_name, category, quantity, amount,
    -- product_id makes the order total: two products may sell for the same amount
    ROW_NUMBER() OVER (PARTITION BY logdate ORDER BY amount DESC, product_id) AS rank
  FROM (
    SELECT
      logdate, product_id,
      MAX(product_name) AS product_name, MAX(category) AS category,
      SUM(quantity) AS quantity, SUM(amount) AS amount
    FROM dwd.order_items
    WHERE status IN ('paid', 'shipped', 'delivered')
      AND logdate >= ${start_date} AND logdate <= ${end_date}
    GROUP BY logdate, product_id
  ) sales
) ranked
WHERE rank <= 10
