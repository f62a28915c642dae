-- Without images of the rows before: they are looked up.
CREATE TABLE cdc_default (id int PRIMARY KEY, name text, n int);
ALTER TABLE cdc_default REPLICA IDENTITY DEFAULT;
INSERT INTO cdc_default SELECT n, 'row', n FROM generate_series(1, 30) AS n;
-- then
UPDATE cdc_default SET n = n * 2 WHERE id % 2 = 0;
UPDATE cdc_default SET id = id + 100 WHERE id % 5 = 0;
DELETE FROM cdc_default WHERE id % 3 = 0;
