CREATE MATERIALIZED TABLE dws.q13 (PRIMARY KEY (c_count))
COMMENT 'TPC-H Q13: customer distribution'
FRESHNESS = INTERVAL '1' MINUTE
AS
SELECT c_count, COUNT(*) AS custdist
FROM (
  SELECT c_custkey, COUNT(o_orderkey) AS c_count
  FROM stg.customer LEFT OUTER JOIN stg.orders
    ON c_custkey = o_custkey AND o_comment NOT LIKE '%special%requests%'
  GROUP BY c_custkey
) AS c_orders
GROUP BY c_count
