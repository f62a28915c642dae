-- layers/stg/users.sql
CREATE MATERIALIZED TABLE stg.users
COMMENT 'Users as the shop has them'
FRESHNESS = DOWNSTREAM
AS
SELECT *
FROM shop.public.users
