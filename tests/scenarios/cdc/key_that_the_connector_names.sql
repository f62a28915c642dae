-- Of two unique indexes the connector's `message.key.columns` names the one that rows are told apart by.
CREATE TABLE cdc_named_key (
    code text NOT NULL UNIQUE, region text NOT NULL, number int NOT NULL, amount numeric(10, 2), UNIQUE (region, number)
);
INSERT INTO cdc_named_key SELECT 'c' || n, 'r' || n % 3, n, n * 1.5 FROM generate_series(1, 40) AS n;
-- then
UPDATE cdc_named_key SET amount = amount + 1 WHERE number % 2 = 0;
UPDATE cdc_named_key SET code = 'x' || code WHERE number % 3 = 0;
UPDATE cdc_named_key SET region = 'moved' WHERE number % 5 = 0;
UPDATE cdc_named_key SET number = number + 100 WHERE region = 'r1';
DELETE FROM cdc_named_key WHERE number % 7 = 0;
INSERT INTO cdc_named_key VALUES ('n1', 'r1', 1, NULL), ('n2', 'moved', 7, 0);
