-- layers/stg/orders.sql
CREATE MATERIALIZED TABLE stg.orders
COMMENT 'Orders as the source has them'
FRESHNESS = DOWNSTREAM
AS
SELECT *
FROM app.public.orders
