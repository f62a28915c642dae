CREATE MATERIALIZED TABLE dwd.orders (PRIMARY KEY (order_id))
COMMENT 'Orders of more than 1, with the hour they were created'
PARTITIONED BY (logdate)
WITH ('partition.fields.logdate.date-formatter' = 'yyyyMMddHH')
FRESHNESS = DOWNSTREAM
AS
SELECT order_id, user_id, amount, date_format(created_at, 'yyyyMMddHH') AS logdate
FROM stg.orders
WHERE amount > 1
  AND date_format(created_at, 'yyyyMMddHH') >= ${start_date}
  AND date_format(created_at, 'yyyyMMddHH') <= ${end_date}
