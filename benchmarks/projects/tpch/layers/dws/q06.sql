CREATE MATERIALIZED TABLE dws.q06 (PRIMARY KEY (id))
COMMENT 'TPC-H Q6: forecasting revenue change'
FRESHNESS = INTERVAL '1' MINUTE
AS
SELECT 1 AS id, SUM(l_extendedprice * l_discount) AS revenue
FROM stg.lineitem
WHERE l_shipdate >= DATE '1994-01-01'
  AND l_shipdate < DATE '1994-01-01' + INTERVAL '1' YEAR
  AND l_discount BETWEEN 0.06 - 0.01 AND 0.06 + 0.01
  AND l_quantity < 24
