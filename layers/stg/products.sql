-- layers/stg/products.sql
CREATE MATERIALIZED TABLE stg.products
COMMENT 'Products as the shop has them'
FRESHNESS = DOWNSTREAM
AS
SELECT *
FROM shop.public.products
