CREATE MATERIALIZED TABLE dws.q14 (PRIMARY KEY (id))
COMMENT 'TPC-H Q14: promotion effect'
FRESHNESS = INTERVAL '1' MINUTE
AS
SELECT 1 AS id,
       100.00 * SUM(CASE WHEN p_type LIKE 'PROMO%' THEN l_extendedprice * (1 - l_discount) ELSE 0 END)
         / SUM(l_extendedprice * (1 - l_discount)) AS promo_revenue
FROM stg.lineitem, stg.part
WHERE l_partkey = p_partkey
  AND l_shipdate >= DATE '1995-09-01'
  AND l_shipdate < DATE '1995-09-01' + INTERVAL '1' MONTH
