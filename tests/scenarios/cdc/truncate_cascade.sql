-- The truncation of a table takes those along that refer to it.
CREATE TABLE cdc_parent (id int PRIMARY KEY);
CREATE TABLE cdc_child (id int PRIMARY KEY, parent int REFERENCES cdc_parent);
INSERT INTO cdc_parent SELECT generate_series(1, 10);
INSERT INTO cdc_child SELECT n, 1 + n % 10 FROM generate_series(1, 30) AS n;
-- then
TRUNCATE cdc_parent CASCADE;
INSERT INTO cdc_parent VALUES (5);
INSERT INTO cdc_child VALUES (5, 5);
