CREATE MATERIALIZED TABLE dws.q05 (PRIMARY KEY (n_name))
COMMENT 'TPC-H Q5: local supplier volume'
FRESHNESS = INTERVAL '1' MINUTE
AS
SELECT n_name, SUM(l_extendedprice * (1 - l_discount)) AS revenue
FROM stg.customer, stg.orders, stg.lineitem, stg.supplier, stg.nation, stg.region
WHERE c_custkey = o_custkey
  AND l_orderkey = o_orderkey
  AND l_suppkey = s_suppkey
  AND c_nationkey = s_nationkey
  AND s_nationkey = n_nationkey
  AND n_regionkey = r_regionkey
  AND r_name = 'ASIA'
  AND o_orderdate >= DATE '1994-01-01'
  AND o_orderdate < DATE '1994-01-01' + INTERVAL '1' YEAR
GROUP BY n_name
