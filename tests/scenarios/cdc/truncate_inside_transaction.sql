-- A truncation between changes of its own transaction, and rows after it.
CREATE TABLE cdc_truncated (id int PRIMARY KEY, name text);
INSERT INTO cdc_truncated SELECT n, 'before' FROM generate_series(1, 30) AS n;
-- then
BEGIN;
UPDATE cdc_truncated SET name = 'lost' WHERE id < 10;
TRUNCATE cdc_truncated;
INSERT INTO cdc_truncated SELECT n, 'after' FROM generate_series(20, 40) AS n;
DELETE FROM cdc_truncated WHERE id = 25;
COMMIT;
INSERT INTO cdc_truncated VALUES (1, 'back');
