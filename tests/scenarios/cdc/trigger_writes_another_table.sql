-- What triggers write belongs to the transaction that fired them.
CREATE TABLE cdc_fires (id int PRIMARY KEY, n int);
CREATE TABLE cdc_audit (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, of int, was int, is_now int);
CREATE FUNCTION cdc_note() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO cdc_audit (of, was, is_now) VALUES (NEW.id, OLD.n, NEW.n); RETURN NEW; END $$;
CREATE TRIGGER cdc_noted AFTER UPDATE ON cdc_fires FOR EACH ROW EXECUTE FUNCTION cdc_note();
INSERT INTO cdc_fires SELECT n, n FROM generate_series(1, 20) AS n;
-- then
UPDATE cdc_fires SET n = n + 1;
UPDATE cdc_fires SET n = n * 2 WHERE id % 4 = 0;
