-- layers/dwd/orders.sql
CREATE MATERIALIZED TABLE dwd.orders (
  PRIMARY KEY (order_id),
  CONSTRAINT known_status
    EXPECT (status IN ('created', 'paid', 'shipped', 'delivered', 'cancelled')) ON VIOLATION WARN
)
COMMENT 'Orders with a positive amount, their status in one spelling'
PARTITIONED BY (logdate)
WITH ('partition.fields.logdate.date-formatter' = 'yyyyMMddHH')
FRESHNESS = DOWNSTREAM
AS
SELECT order_id, user_id, lower(trim(status)) AS status, amount, created_at, updated_at, logdate
FROM stg.orders
WHERE amount > 0
  AND logdate >= ${start_date} AND logdate <= ${end_date}
