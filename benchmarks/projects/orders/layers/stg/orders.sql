CREATE MATERIALIZED TABLE stg.orders
COMMENT 'Orders as the source has them'
FRESHNESS = DOWNSTREAM
AS
SELECT *
FROM chain.public.orders
