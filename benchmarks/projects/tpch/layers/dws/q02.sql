CREATE MATERIALIZED TABLE dws.q02 (PRIMARY KEY (p_partkey, s_suppkey))
COMMENT 'TPC-H Q2: minimum cost supplier; s_suppkey added for the key and a total order'
FRESHNESS = INTERVAL '1' MINUTE
AS
SELECT s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment, s_suppkey
FROM stg.part, stg.supplier, stg.partsupp, stg.nation, stg.region
WHERE p_partkey = ps_partkey
  AND s_suppkey = ps_suppkey
  AND p_size = 15
  AND p_type LIKE '%BRASS'
  AND s_nationkey = n_nationkey
  AND n_regionkey = r_regionkey
  AND r_name = 'EUROPE'
  AND ps_supplycost = (
    SELECT MIN(ps_supplycost)
    FROM stg.partsupp, stg.supplier, stg.nation, stg.region
    WHERE p_partkey = ps_partkey
      AND s_suppkey = ps_suppkey
      AND s_nationkey = n_nationkey
      AND n_regionkey = r_regionkey
      AND r_name = 'EUROPE'
  )
ORDER BY s_acctbal DESC, n_name, s_name, p_partkey, s_suppkey
LIMIT 100
