CREATE MATERIALIZED TABLE dws.user_hour (PRIMARY KEY (user_id, logdate))
COMMENT 'Number and sum of orders by user and hour'
PARTITIONED BY (logdate)
WITH ('partition.fields.logdate.date-formatter' = 'yyyyMMddHH')
FRESHNESS = INTERVAL '5' SECOND
AS
SELECT user_id, logdate, COUNT(*) AS cnt, SUM(amount) AS amt
FROM dwd.orders
WHERE logdate >= ${start_date} AND logdate <= ${end_date}
GROUP BY user_id, logdate
