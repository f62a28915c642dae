CREATE MATERIALIZED TABLE dwd.orders (PRIMARY KEY (order_id))
COMMENT 'The large table; the suite writes its changes itself'
PARTITIONED BY (hour)
WITH ('partition.fields.hour.date-formatter' = 'yyyyMMddHH')
FRESHNESS = DOWNSTREAM
AS
SELECT order_id, user_id, hour, amount
FROM stg.orders
WHERE hour >= ${start_date} AND hour <= ${end_date}
