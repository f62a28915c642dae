-- Rows that nobody outside of their transaction ever saw, beside some that stay.
CREATE TABLE cdc_never (id int PRIMARY KEY, name text);
INSERT INTO cdc_never VALUES (1, 'stays');
-- then
BEGIN;
INSERT INTO cdc_never SELECT n, 'comes and goes' FROM generate_series(2, 40) AS n;
UPDATE cdc_never SET name = 'changed' WHERE id BETWEEN 2 AND 20;
DELETE FROM cdc_never WHERE id BETWEEN 2 AND 38;
COMMIT;
