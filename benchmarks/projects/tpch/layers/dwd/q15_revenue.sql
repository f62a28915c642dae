CREATE MATERIALIZED TABLE dwd.q15_revenue (PRIMARY KEY (supplier_no))
COMMENT 'TPC-H Q15: its view of revenue by supplier'
FRESHNESS = INTERVAL '1' MINUTE
AS
SELECT l_suppkey AS supplier_no, SUM(l_extendedprice * (1 - l_discount)) AS total_revenue
FROM stg.lineitem
WHERE l_shipdate >= DATE '1996-01-01'
  AND l_shipdate < DATE '1996-01-01' + INTERVAL '3' MONTH
GROUP BY l_suppkey
