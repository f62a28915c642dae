-- More rows than a micro-batch looks at one by one, inserted, updated and deleted by single statements.
CREATE TABLE cdc_many (id int PRIMARY KEY, word text, n int);
INSERT INTO cdc_many SELECT n, 'w' || n % 97, n FROM generate_series(1, 5000) AS n;
-- then
INSERT INTO cdc_many SELECT n, 'later', n FROM generate_series(5001, 30000) AS n;
UPDATE cdc_many SET n = -n WHERE id % 2 = 0;
DELETE FROM cdc_many WHERE id % 3 = 0;
