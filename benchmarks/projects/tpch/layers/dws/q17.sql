CREATE MATERIALIZED TABLE dws.q17 (PRIMARY KEY (id))
COMMENT 'TPC-H Q17: small-quantity-order revenue'
FRESHNESS = INTERVAL '1' MINUTE
AS
SELECT 1 AS id, SUM(l_extendedprice) / 7.0 AS avg_yearly
FROM stg.lineitem, stg.part
WHERE p_partkey = l_partkey
  AND p_brand = 'Brand#23'
  AND p_container = 'MED BOX'
  AND l_quantity < (SELECT 0.2 * AVG(l_quantity) FROM stg.lineitem WHERE l_partkey = p_partkey)
