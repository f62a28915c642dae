-- Updates that leave rows as they are, and one that changes a row and changes it back.
CREATE TABLE cdc_nothing (id int PRIMARY KEY, name text);
INSERT INTO cdc_nothing VALUES (1, 'a'), (2, NULL);
-- then
UPDATE cdc_nothing SET name = name;
BEGIN;
UPDATE cdc_nothing SET name = 'other' WHERE id = 1;
UPDATE cdc_nothing SET name = 'a' WHERE id = 1;
COMMIT;
UPDATE cdc_nothing SET name = NULL WHERE id = 2;
