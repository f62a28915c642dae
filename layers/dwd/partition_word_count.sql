-- layers/dwd/partition_word_count.sql
CREATE MATERIALIZED TABLE dwd.partition_word_count (
  PRIMARY KEY (word_id)
)
COMMENT 'Words in lower case, without the empty ones'
PARTITIONED BY (logdate)
WITH ('partition.fields.logdate.date-formatter' = 'yyyyMMddHH')
FRESHNESS = DOWNSTREAM
AS
SELECT word_id, logdate, user_id, lower(trim(word)) AS word
FROM stg.page_words
WHERE trim(word) <> ''
  AND logdate >= ${start_date} AND logdate <= ${end_date}
