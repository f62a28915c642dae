-- A delete and a change of a key reach rows of another table by its foreign key.
CREATE TABLE cdc_owner (id int PRIMARY KEY, name text);
CREATE TABLE cdc_owned (id int PRIMARY KEY, owner int REFERENCES cdc_owner ON DELETE CASCADE ON UPDATE CASCADE);
INSERT INTO cdc_owner SELECT n, 'o' FROM generate_series(1, 10) AS n;
INSERT INTO cdc_owned SELECT n, 1 + n % 10 FROM generate_series(1, 60) AS n;
-- then
DELETE FROM cdc_owner WHERE id % 3 = 0;
UPDATE cdc_owner SET id = id + 100 WHERE id % 2 = 0;
