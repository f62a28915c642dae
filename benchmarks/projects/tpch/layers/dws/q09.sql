CREATE MATERIALIZED TABLE dws.q09 (PRIMARY KEY (nation, o_year))
COMMENT 'TPC-H Q9: product type profit measure'
FRESHNESS = INTERVAL '1' MINUTE
AS
SELECT nation, o_year, SUM(amount) AS sum_profit
FROM (
  SELECT n_name AS nation,
         EXTRACT(YEAR FROM o_orderdate) AS o_year,
         l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity AS amount
  FROM stg.part, stg.supplier, stg.lineitem, stg.partsupp, stg.orders, stg.nation
  WHERE s_suppkey = l_suppkey
    AND ps_suppkey = l_suppkey
    AND ps_partkey = l_partkey
    AND p_partkey = l_partkey
    AND o_orderkey = l_orderkey
    AND s_nationkey = n_nationkey
    AND p_name LIKE '%green%'
) AS profit
GROUP BY nation, o_year
