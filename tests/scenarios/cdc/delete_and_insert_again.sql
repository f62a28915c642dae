-- Deleted and inserted again under the same key: in one transaction, in two, and twice in one.
CREATE TABLE cdc_again (id int PRIMARY KEY, name text);
INSERT INTO cdc_again VALUES (1, 'a'), (2, 'b'), (3, 'c');
-- then
BEGIN;
DELETE FROM cdc_again WHERE id = 1;
INSERT INTO cdc_again VALUES (1, 'again');
COMMIT;
DELETE FROM cdc_again WHERE id = 2;
INSERT INTO cdc_again VALUES (2, 'again');
BEGIN;
DELETE FROM cdc_again WHERE id = 3;
INSERT INTO cdc_again VALUES (3, 'once');
DELETE FROM cdc_again WHERE id = 3;
INSERT INTO cdc_again VALUES (3, 'twice');
COMMIT;
