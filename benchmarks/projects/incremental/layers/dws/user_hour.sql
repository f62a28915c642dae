CREATE MATERIALIZED TABLE dws.user_hour (PRIMARY KEY (user_id, hour))
COMMENT 'What is measured; the suite makes a copy of it for each forced way'
PARTITIONED BY (hour)
WITH ('partition.fields.hour.date-formatter' = 'yyyyMMddHH')
FRESHNESS = INTERVAL '1' MINUTE
AS
SELECT user_id, hour, COUNT(*) AS cnt, SUM(amount) AS amount
FROM dwd.orders
WHERE hour >= ${start_date} AND hour <= ${end_date}
GROUP BY user_id, hour
