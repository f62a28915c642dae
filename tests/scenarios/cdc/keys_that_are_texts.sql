-- Quotes, backslashes, blanks, case, combining marks and the empty text tell keys apart.
CREATE TABLE cdc_texts (id text PRIMARY KEY, n int);
INSERT INTO cdc_texts VALUES ('', 0), ('a', 1), ('A', 2), ('a ', 3), ('"', 4), ('''', 5), (E'\\', 6), (E'\n', 7);
INSERT INTO cdc_texts VALUES ('é', 8), (U&'e\0301', 9), ('😀', 10), ('null', 11), ('{"id": 1}', 12);
-- then
UPDATE cdc_texts SET n = n + 100;
DELETE FROM cdc_texts WHERE id IN ('A', 'é', '"');
INSERT INTO cdc_texts VALUES ('A', 1000);
