-- layers/dws/gmv_compared.sql
CREATE MATERIALIZED TABLE dws.gmv_compared (
  PRIMARY KEY (logdate),
  CONSTRAINT gmv_not_negative EXPECT (gmv >= 0) ON VIOLATION FAIL
)
COMMENT 'Paid amount per hour beside that of the same weekday''s hour a week and 52 weeks before'
PARTITIONED BY (logdate)
WITH ('partition.fields.logdate.date-formatter' = 'yyyyMMddHH')
FRESHNESS = INTERVAL '1' MINUTE
AS
-- an hour without any order is NULL: nothing is known of it
SELECT h.logdate, h.gmv, w.gmv AS gmv_week_ago, y.gmv AS gmv_year_ago
FROM dws.gmv_hour h
LEFT JOIN dws.gmv_hour w ON w.logdate = h.week_ago
LEFT JOIN dws.gmv_hour y ON y.logdate = h.year_ago
WHERE h.logdate >= ${start_date} AND h.logdate <= ${end_date}
