-- layers/dws/partition_word_count.sql
CREATE MATERIALIZED TABLE dws.partition_word_count (
  PRIMARY KEY (logdate, user_id),
  CONSTRAINT counted EXPECT (cnt > 0) ON VIOLATION FAIL
)
COMMENT 'Words seen per user and hour'
PARTITIONED BY (logdate)
WITH ('partition.fields.logdate.date-formatter' = 'yyyyMMddHH')
FRESHNESS = INTERVAL '1' MINUTE
AS
SELECT logdate, user_id, COUNT(*) AS cnt
FROM dwd.partition_word_count
WHERE logdate >= ${start_date} AND logdate <= ${end_date}
GROUP BY logdate, user_id
