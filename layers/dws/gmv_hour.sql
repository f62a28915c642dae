-- layers/dws/gmv_hour.sql
CREATE MATERIALIZED TABLE dws.gmv_hour (
  PRIMARY KEY (logdate),
  CONSTRAINT has_buyers EXPECT (buyers > 0 AND buyers <= orders) ON VIOLATION FAIL,
  CONSTRAINT gmv_not_negative EXPECT (gmv >= 0) ON VIOLATION FAIL
)
COMMENT 'Orders, distinct buyers and paid amount per hour'
PARTITIONED BY (logdate)
WITH ('partition.fields.logdate.date-formatter' = 'yyyyMMddHH')
FRESHNESS = INTERVAL '30' SECOND
AS
SELECT
  logdate,
  -- the same weekday's hour a week and 52 weeks before, as columns: a join by them is followed both ways
  date_format(to_timestamp(logdate, 'yyyyMMddHH') - INTERVAL '7' DAY, 'yyyyMMddHH') AS week_ago,
  date_format(to_timestamp(logdate, 'yyyyMMddHH') - INTERVAL '364' DAY, 'yyyyMMddHH') AS year_ago,
  COUNT(*) AS orders,
  COUNT(DISTINCT user_id) AS buyers,
  -- an hour without a paid order has sold 0, not NULL
  COALESCE(SUM(amount) FILTER (WHERE status IN ('paid', 'shipped', 'delivered')), 0) AS gmv
FROM dwd.orders
WHERE logdate >= ${start_date} AND logdate <= ${end_date}
GROUP BY logdate
