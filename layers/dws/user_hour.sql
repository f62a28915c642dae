-- layers/dws/user_hour.sql
CREATE MATERIALIZED TABLE dws.user_hour (
  PRIMARY KEY (user_id, logdate),
  CONSTRAINT counted EXPECT (cnt > 0) ON VIOLATION FAIL
)
COMMENT 'Orders and amount per user and hour'
PARTITIONED BY (logdate)
WITH ('partition.fields.logdate.date-formatter' = 'yyyyMMddHH')
FRESHNESS = INTERVAL '10' SECOND
AS
SELECT user_id, logdate, COUNT(*) AS cnt, SUM(amount) AS amount
FROM dwd.orders
WHERE logdate >= ${start_date} AND logdate <= ${end_date}
GROUP BY user_id, logdate
