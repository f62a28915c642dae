-- layers/stg/orders.sql
CREATE MATERIALIZED TABLE stg.orders
COMMENT 'Orders as the shop has them, by the hour they were created'
PARTITIONED BY (logdate)
WITH ('partition.fields.logdate.date-formatter' = 'yyyyMMddHH')
FRESHNESS = DOWNSTREAM
AS
SELECT *, date_format(created_at, 'yyyyMMddHH') AS logdate
FROM shop.public.orders
WHERE date_format(created_at, 'yyyyMMddHH') >= ${start_date}
  AND date_format(created_at, 'yyyyMMddHH') <= ${end_date}
