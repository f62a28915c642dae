-- layers/stg/page_words.sql
CREATE MATERIALIZED TABLE stg.page_words
COMMENT 'Words seen on pages, by the hour they were seen'
PARTITIONED BY (logdate)
WITH ('partition.fields.logdate.date-formatter' = 'yyyyMMddHH')
FRESHNESS = DOWNSTREAM
AS
SELECT *, date_format(created_at, 'yyyyMMddHH') AS logdate
FROM shop.public.page_words
WHERE date_format(created_at, 'yyyyMMddHH') >= ${start_date}
  AND date_format(created_at, 'yyyyMMddHH') <= ${end_date}
