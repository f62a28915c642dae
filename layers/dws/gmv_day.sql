-- layers/dws/gmv_day.sql
CREATE MATERIALIZED TABLE dws.gmv_day (
  PRIMARY KEY (day),
  CONSTRAINT counted EXPECT (orders > 0) ON VIOLATION FAIL,
  CONSTRAINT gmv_not_negative EXPECT (gmv >= 0) ON VIOLATION FAIL
)
COMMENT 'Daily report: orders and paid amount; by the minute on the sale day'
PARTITIONED BY (day)
WITH (
  'partition.fields.day.date-formatter' = 'yyyyMMdd',
  'freshness.calendar' = '11-11 = 1 MINUTE'
)
FRESHNESS = INTERVAL '1' DAY
AS
SELECT
  substr(logdate, 1, 8) AS day,
  COUNT(*) AS orders,
  COALESCE(SUM(amount) FILTER (WHERE status IN ('paid', 'shipped', 'delivered')), 0) AS gmv
FROM dwd.orders
WHERE substr(logdate, 1, 8) >= ${start_date} AND substr(logdate, 1, 8) <= ${end_date}
GROUP BY substr(logdate, 1, 8)
