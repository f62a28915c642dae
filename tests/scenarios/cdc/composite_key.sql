-- A key of three columns in another order than the table's, one of which changes.
CREATE TABLE cdc_composite (word text, n int, day date, value int, PRIMARY KEY (day, word, n));
INSERT INTO cdc_composite SELECT 'w' || n % 3, n, date '2026-01-01' + n % 4, n FROM generate_series(1, 40) AS n;
-- then
UPDATE cdc_composite SET day = day + 10 WHERE n % 5 = 0;
UPDATE cdc_composite SET word = word || '!' WHERE n % 7 = 0;
DELETE FROM cdc_composite WHERE n % 11 = 0;
UPDATE cdc_composite SET value = -value;
