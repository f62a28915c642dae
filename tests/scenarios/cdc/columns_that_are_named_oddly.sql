-- Names that are keywords, need quotes, or are those of an event's own fields.
CREATE TABLE cdc_named ("key" int PRIMARY KEY, "op" text, "select" text, "Mixed Case" text, "a""b" text, "ts_ms" bigint,
    "before" text, "after" text, "source" text, "value" text, "naïve" text);
INSERT INTO cdc_named VALUES (1, 'c', 's', 'm', 'q', 5, 'b', 'a', 's', 'v', 'n');
INSERT INTO cdc_named VALUES (2);
-- then
UPDATE cdc_named SET "op" = 'd', "Mixed Case" = 'changed', "a""b" = 'changed' WHERE "key" = 1;
INSERT INTO cdc_named VALUES (3, 'u');
DELETE FROM cdc_named WHERE "key" = 2;
