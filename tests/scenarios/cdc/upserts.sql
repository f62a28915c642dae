-- INSERT … ON CONFLICT that inserts, updates and leaves alone, and MERGE.
CREATE TABLE cdc_upserts (id int PRIMARY KEY, n int);
INSERT INTO cdc_upserts SELECT n, 0 FROM generate_series(1, 20) AS n;
-- then
INSERT INTO cdc_upserts SELECT n, 1 FROM generate_series(10, 30) AS n ON CONFLICT (id) DO UPDATE SET n = cdc_upserts.n + 1;
INSERT INTO cdc_upserts SELECT n, 9 FROM generate_series(1, 40) AS n ON CONFLICT DO NOTHING;
MERGE INTO cdc_upserts t USING (SELECT generate_series(35, 45) AS id) s ON t.id = s.id
    WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (s.id, 5);
