-- layers/dws/orders_day.sql
CREATE MATERIALIZED TABLE dws.orders_day (
  PRIMARY KEY (day),
  CONSTRAINT counted EXPECT (orders > 0) ON VIOLATION FAIL
)
COMMENT 'Orders and their amount per day'
PARTITIONED BY (day)
WITH ('partition.fields.day.date-formatter' = 'yyyyMMdd')
FRESHNESS = INTERVAL '10' SECOND
AS
SELECT date_format(created_at, 'yyyyMMdd') AS day, COUNT(*) AS orders, SUM(amount) AS amount
FROM stg.orders
WHERE date_format(created_at, 'yyyyMMdd') >= ${start_date}
  AND date_format(created_at, 'yyyyMMdd') <= ${end_date}
GROUP BY date_format(created_at, 'yyyyMMdd')
