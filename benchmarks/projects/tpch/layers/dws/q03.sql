CREATE MATERIALIZED TABLE dws.q03 (PRIMARY KEY (l_orderkey))
COMMENT 'TPC-H Q3: shipping priority; l_orderkey ends its order'
FRESHNESS = INTERVAL '1' MINUTE
AS
SELECT l_orderkey, SUM(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate, o_shippriority
FROM stg.customer, stg.orders, stg.lineitem
WHERE c_mktsegment = 'BUILDING'
  AND c_custkey = o_custkey
  AND l_orderkey = o_orderkey
  AND o_orderdate < DATE '1995-03-15'
  AND l_shipdate > DATE '1995-03-15'
GROUP BY l_orderkey, o_orderdate, o_shippriority
ORDER BY revenue DESC, o_orderdate, l_orderkey
LIMIT 10
