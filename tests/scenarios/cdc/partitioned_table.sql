-- Rows of all partitions come under the table's own name, also of those made later, and where a row moves to another.
CREATE TABLE cdc_partitioned (id int, day date, name text, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
CREATE TABLE part_of_january PARTITION OF cdc_partitioned FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
CREATE TABLE part_of_rest PARTITION OF cdc_partitioned DEFAULT PARTITION BY LIST (id);
CREATE TABLE part_of_rest_all PARTITION OF part_of_rest DEFAULT;
INSERT INTO cdc_partitioned SELECT n, date '2026-01-01' + n % 60, 'row ' || n FROM generate_series(1, 120) AS n;
-- then
UPDATE cdc_partitioned SET name = name || '!' WHERE id % 3 = 0;
UPDATE cdc_partitioned SET day = day + 40 WHERE id % 5 = 0;
DELETE FROM cdc_partitioned WHERE id % 7 = 0;
DELETE FROM part_of_rest WHERE day >= '2026-05-01';
CREATE TABLE part_of_may PARTITION OF cdc_partitioned FOR VALUES FROM ('2026-05-01') TO ('2026-06-01');
INSERT INTO cdc_partitioned SELECT n, date '2026-05-01' + n % 30, 'later' FROM generate_series(200, 240) AS n;
UPDATE part_of_may SET name = 'by its partition' WHERE id % 2 = 0;
