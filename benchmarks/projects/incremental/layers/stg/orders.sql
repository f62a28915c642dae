CREATE MATERIALIZED TABLE stg.orders
PARTITIONED BY (hour)
WITH ('partition.fields.hour.date-formatter' = 'yyyyMMddHH')
FRESHNESS = DOWNSTREAM
AS
SELECT * FROM shop.public.orders
WHERE hour >= ${start_date} AND hour <= ${end_date}
