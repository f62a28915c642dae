CREATE MATERIALIZED TABLE dws.q15 (PRIMARY KEY (s_suppkey))
COMMENT 'TPC-H Q15: top supplier'
FRESHNESS = INTERVAL '1' MINUTE
AS
SELECT s_suppkey, s_name, s_address, s_phone, total_revenue
FROM stg.supplier, dwd.q15_revenue
WHERE s_suppkey = supplier_no
  AND total_revenue = (SELECT MAX(total_revenue) FROM dwd.q15_revenue)
