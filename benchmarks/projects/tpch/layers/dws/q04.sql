CREATE MATERIALIZED TABLE dws.q04 (PRIMARY KEY (o_orderpriority))
COMMENT 'TPC-H Q4: order priority checking'
FRESHNESS = INTERVAL '1' MINUTE
AS
SELECT o_orderpriority, COUNT(*) AS order_count
FROM stg.orders
WHERE o_orderdate >= DATE '1993-07-01'
  AND o_orderdate < DATE '1993-07-01' + INTERVAL '3' MONTH
  AND EXISTS (
    SELECT * FROM stg.lineitem WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate
  )
GROUP BY o_orderpriority
