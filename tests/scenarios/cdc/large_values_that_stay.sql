-- Values that are stored out of line and not sent again, in a table with REPLICA IDENTITY FULL.
CREATE TABLE cdc_large (id int PRIMARY KEY, body text, tags text[], doc jsonb, n int);
ALTER TABLE cdc_large ALTER body SET STORAGE EXTERNAL, ALTER tags SET STORAGE EXTERNAL, ALTER doc SET STORAGE EXTERNAL;
INSERT INTO cdc_large SELECT n, repeat('b' || n, 1100), array_fill('t'::text, ARRAY[300]), jsonb_build_object('x', repeat('y', 2100)), n
    FROM generate_series(1, 8) AS n;
-- then
UPDATE cdc_large SET n = -n;
UPDATE cdc_large SET body = 'short' WHERE id = 2;
UPDATE cdc_large SET id = 30 WHERE id = 3;
DELETE FROM cdc_large WHERE id = 4;
