-- A row that changes a thousand times in one transaction, and a hundred times in as many.
CREATE TABLE cdc_busy (id int PRIMARY KEY, n int);
INSERT INTO cdc_busy VALUES (1, 0), (2, 0);
-- then
DO $$ BEGIN FOR i IN 1..1000 LOOP UPDATE cdc_busy SET n = i WHERE id = 1; END LOOP; END $$;
DO $$ BEGIN FOR i IN 1..100 LOOP UPDATE cdc_busy SET n = i WHERE id = 2; COMMIT; END LOOP; END $$;
