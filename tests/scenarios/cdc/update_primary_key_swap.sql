-- Two rows change their keys for each other's, through a third one.
CREATE TABLE cdc_swap (id int PRIMARY KEY, name text);
INSERT INTO cdc_swap VALUES (1, 'a'), (2, 'b'), (3, 'c');
-- then
BEGIN;
UPDATE cdc_swap SET id = -1 WHERE id = 1;
UPDATE cdc_swap SET id = 1 WHERE id = 2;
UPDATE cdc_swap SET id = 2 WHERE id = -1;
COMMIT;
