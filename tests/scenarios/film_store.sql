-- A film store as applications of MySQL's kind make them: enums, sets, years, unsigned keys, partitions, triggers, views.
CREATE DATABASE store CHARACTER SET utf8mb4;
USE store;
CREATE TABLE headrace_marker (id varchar(64) PRIMARY KEY, at datetime(6) NOT NULL);
CREATE TABLE category (
    category_id tinyint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY,
    name varchar(25) CHARACTER SET latin1 NOT NULL
);
CREATE TABLE film (
    film_id smallint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY,
    title varchar(128) NOT NULL,
    description text,
    release_year year,
    category_id tinyint unsigned NOT NULL,
    rental_rate decimal(4,2) NOT NULL DEFAULT 4.99,
    rental_cents int AS (rental_rate * 100) STORED,
    length smallint unsigned,
    rating enum('G','PG','R') DEFAULT 'G',
    special_features set('Trailers','Deleted Scenes','Behind the Scenes'),
    last_update timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
    FOREIGN KEY (category_id) REFERENCES category (category_id)
);
CREATE TABLE customer (
    customer_id int NOT NULL AUTO_INCREMENT PRIMARY KEY,
    name varchar(45) NOT NULL,
    email varchar(50),
    active boolean NOT NULL DEFAULT TRUE,
    notes json,
    birthday date,
    KEY (name)
);
CREATE TABLE inventory (
    inventory_id mediumint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY,
    film_id smallint unsigned NOT NULL,
    picture blob,
    FOREIGN KEY (film_id) REFERENCES film (film_id)
);
CREATE TABLE rental (
    rental_id bigint unsigned NOT NULL PRIMARY KEY,
    inventory_id mediumint unsigned,
    customer_id int NOT NULL,
    since datetime NOT NULL,
    back datetime(6),
    late time
);
CREATE TABLE payment (
    payment_id int NOT NULL,
    paid date NOT NULL,
    customer_id int NOT NULL,
    amount decimal(8,2) NOT NULL,
    PRIMARY KEY (payment_id, paid)
) PARTITION BY RANGE (YEAR(paid)) (PARTITION p2025 VALUES LESS THAN (2026), PARTITION later VALUES LESS THAN MAXVALUE);
CREATE TABLE balance (customer_id int PRIMARY KEY, total decimal(12,2) NOT NULL);
CREATE TRIGGER adds_up AFTER INSERT ON payment FOR EACH ROW
    INSERT INTO balance VALUES (NEW.customer_id, NEW.amount) ON DUPLICATE KEY UPDATE total = total + NEW.amount;
CREATE VIEW films_by_category AS SELECT category_id, count(*) AS films FROM film GROUP BY category_id;

INSERT INTO category (name) VALUES ('Drama'), ('Komödie'), ('Action');
INSERT INTO film (title, description, release_year, category_id, length, special_features)
    SELECT concat('Film ', seq), repeat('é ', seq), 1950 + seq, 1 + seq % 3, 60 + seq, 'Trailers,Deleted Scenes' FROM seq_1_to_60;
INSERT INTO customer (name, email, notes, birthday)
    SELECT concat('Customer ', seq), concat(seq, '@store.example'), json_object('n', seq, 'tags', json_array(1, null)), '1990-02-28' + INTERVAL seq DAY FROM seq_1_to_30;
INSERT INTO inventory (film_id, picture) SELECT seq, unhex(repeat('ff00', seq)) FROM seq_1_to_60;
INSERT INTO rental (rental_id, inventory_id, customer_id, since)
    SELECT 18446744073709551000 + seq, seq, 1 + seq % 30, '2026-01-10' + INTERVAL 7 * seq HOUR FROM seq_1_to_60;
INSERT INTO payment SELECT seq, '2025-12-01' + INTERVAL seq DAY, 1 + seq % 30, seq * 1.25 FROM seq_1_to_60;
-- then
USE store;
-- {1..n}: one statement, and one transaction, for each number.
{1..40} UPDATE film SET rental_rate = rental_rate + 0.5, length = length - # % 3 WHERE film_id = #;
ALTER TABLE film ADD COLUMN stars tinyint DEFAULT 3;
{1..20} INSERT INTO film (title, category_id, rating, stars) VALUES (concat('New ', #), 1 + # % 3, 'PG', # % 6);
ALTER TABLE film MODIFY rating enum('G','PG','R','NC-17') DEFAULT 'G';
UPDATE film SET rating = 'NC-17' WHERE film_id % 10 = 0;
{1..40} UPDATE rental SET back = since + INTERVAL 1 + # % 9 DAY, late = SEC_TO_TIME(# * 4001) WHERE rental_id = 18446744073709551000 + #;
ALTER TABLE customer RENAME COLUMN name TO full_name;
UPDATE customer SET full_name = upper(full_name) WHERE customer_id % 2 = 0;
ALTER TABLE customer MODIFY email varchar(200);
DELETE FROM customer WHERE customer_id % 5 = 0;
ALTER TABLE payment REORGANIZE PARTITION later INTO (PARTITION p2026 VALUES LESS THAN (2027), PARTITION later VALUES LESS THAN MAXVALUE);
{1..40} INSERT INTO payment VALUES (1000 + #, '2026-12-20' + INTERVAL # DAY, 1 + # % 30, #);
UPDATE payment SET paid = paid + INTERVAL 400 DAY WHERE payment_id % 7 = 0;
ALTER TABLE customer DROP COLUMN birthday;
ALTER TABLE customer ALTER COLUMN active SET DEFAULT FALSE;
{1..20} INSERT INTO customer (full_name, notes) VALUES (concat('Later ', #), 'null');
CREATE INDEX by_customer ON rental (customer_id);
UPDATE customer SET notes = NULL, email = NULL WHERE customer_id % 4 = 0;
ALTER TABLE inventory MODIFY inventory_id int unsigned NOT NULL AUTO_INCREMENT;
{1..15} DELETE FROM inventory WHERE inventory_id = 3 * #;
{1..20} INSERT INTO inventory (film_id) SELECT film_id FROM film WHERE title = concat('New ', 1 + # % 5);
ALTER TABLE category CONVERT TO CHARACTER SET utf8mb4;
INSERT INTO category (name) VALUES ('日本語 😀');
START TRANSACTION;
UPDATE balance SET total = -total;
SAVEPOINT s;
DELETE FROM payment;
ROLLBACK TO s;
UPDATE balance SET total = -total + 1;
COMMIT;
