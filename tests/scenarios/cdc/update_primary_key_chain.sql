-- Every key moves to the next one in one transaction, and the last one comes back as the first.
CREATE TABLE cdc_chain (id int PRIMARY KEY, name text);
INSERT INTO cdc_chain SELECT n, 'row ' || n FROM generate_series(1, 50) AS n;
-- then
BEGIN;
UPDATE cdc_chain SET id = id + 1000;
UPDATE cdc_chain SET id = id - 999;
UPDATE cdc_chain SET id = 1 WHERE id = 51;
COMMIT;
UPDATE cdc_chain SET id = 77, name = 'moved' WHERE id = 7;
