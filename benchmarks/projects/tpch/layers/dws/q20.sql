CREATE MATERIALIZED TABLE dws.q20 (PRIMARY KEY (s_suppkey))
COMMENT 'TPC-H Q20: potential part promotion; s_suppkey added for the key'
FRESHNESS = INTERVAL '1' MINUTE
AS
SELECT s_suppkey, s_name, s_address
FROM stg.supplier, stg.nation
WHERE s_suppkey IN (
    SELECT ps_suppkey
    FROM stg.partsupp
    WHERE ps_partkey IN (SELECT p_partkey FROM stg.part WHERE p_name LIKE 'forest%')
      AND ps_availqty > (
        SELECT 0.5 * SUM(l_quantity)
        FROM stg.lineitem
        WHERE l_partkey = ps_partkey
          AND l_suppkey = ps_suppkey
          AND l_shipdate >= DATE '1994-01-01'
          AND l_shipdate < DATE '1994-01-01' + INTERVAL '1' YEAR
      )
  )
  AND s_nationkey = n_nationkey
  AND n_name = 'CANADA'
