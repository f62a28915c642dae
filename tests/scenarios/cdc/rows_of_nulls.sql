-- Rows of nothing but NULL beside the key, and values that become NULL and come back.
CREATE TABLE cdc_nulls (id int PRIMARY KEY, a text, b numeric(10,2), c timestamptz, d boolean, e bytea, f jsonb);
INSERT INTO cdc_nulls VALUES (1);
INSERT INTO cdc_nulls VALUES (2, '', 0, 'epoch', false, '', 'null'), (3, 'null', 1, now(), true, '\x00', '{}');
-- then
UPDATE cdc_nulls SET a = NULL, b = NULL, c = NULL, d = NULL, e = NULL, f = NULL WHERE id = 2;
UPDATE cdc_nulls SET a = '', b = -0.01, c = 'epoch', d = false, e = '', f = '[]' WHERE id = 1;
INSERT INTO cdc_nulls VALUES (4);
