CREATE MATERIALIZED TABLE dws.q22 (PRIMARY KEY (cntrycode))
COMMENT 'TPC-H Q22: global sales opportunity'
FRESHNESS = INTERVAL '1' MINUTE
AS
SELECT cntrycode, COUNT(*) AS numcust, SUM(c_acctbal) AS totacctbal
FROM (
  SELECT SUBSTRING(c_phone, 1, 2) AS cntrycode, c_acctbal
  FROM stg.customer
  WHERE SUBSTRING(c_phone, 1, 2) IN ('13', '31', '23', '29', '30', '18', '17')
    AND c_acctbal > (
      SELECT AVG(c_acctbal)
      FROM stg.customer
      WHERE c_acctbal > 0.00
        AND SUBSTRING(c_phone, 1, 2) IN ('13', '31', '23', '29', '30', '18', '17')
    )
    AND NOT EXISTS (SELECT * FROM stg.orders WHERE o_custkey = c_custkey)
) AS custsale
GROUP BY cntrycode
