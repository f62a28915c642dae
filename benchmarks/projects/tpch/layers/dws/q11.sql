CREATE MATERIALIZED TABLE dws.q11 (PRIMARY KEY (ps_partkey))
COMMENT 'TPC-H Q11: important stock identification'
FRESHNESS = INTERVAL '1' MINUTE
AS
SELECT ps_partkey, SUM(ps_supplycost * ps_availqty) AS value
FROM stg.partsupp, stg.supplier, stg.nation
WHERE ps_suppkey = s_suppkey
  AND s_nationkey = n_nationkey
  AND n_name = 'GERMANY'
GROUP BY ps_partkey
HAVING SUM(ps_supplycost * ps_availqty) > (
  SELECT SUM(ps_supplycost * ps_availqty) * 0.0001
  FROM stg.partsupp, stg.supplier, stg.nation
  WHERE ps_suppkey = s_suppkey
    AND s_nationkey = n_nationkey
    AND n_name = 'GERMANY'
)
