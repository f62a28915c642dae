CREATE MATERIALIZED TABLE dws.q18 (PRIMARY KEY (o_orderkey))
COMMENT 'TPC-H Q18: large volume customer; o_orderkey ends its order'
FRESHNESS = INTERVAL '1' MINUTE
AS
SELECT c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, SUM(l_quantity) AS sum_quantity
FROM stg.customer, stg.orders, stg.lineitem
WHERE o_orderkey IN (
    SELECT l_orderkey FROM stg.lineitem GROUP BY l_orderkey HAVING SUM(l_quantity) > 300
  )
  AND c_custkey = o_custkey
  AND o_orderkey = l_orderkey
GROUP BY c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice
ORDER BY o_totalprice DESC, o_orderdate, o_orderkey
LIMIT 100
