-- What a savepoint took back, and what a transaction did, never was.
CREATE TABLE cdc_saved (id int PRIMARY KEY, name text);
INSERT INTO cdc_saved VALUES (1, 'a'), (2, 'b');
-- then
BEGIN;
UPDATE cdc_saved SET name = 'kept' WHERE id = 1;
SAVEPOINT one;
UPDATE cdc_saved SET name = 'lost' WHERE id = 2;
INSERT INTO cdc_saved VALUES (3, 'lost');
ROLLBACK TO one;
INSERT INTO cdc_saved VALUES (4, 'kept');
COMMIT;
BEGIN;
DELETE FROM cdc_saved;
ROLLBACK;
