CREATE CATALOG paimon WITH ('type' = 'paimon', 'warehouse' = '${warehouse}');
USE CATALOG paimon;

CREATE TABLE stg_users (
  user_id BIGINT, name STRING, email STRING, city STRING,
  created_at TIMESTAMP_LTZ(6), updated_at TIMESTAMP_LTZ(6),
  PRIMARY KEY (user_id) NOT ENFORCED
) WITH (${table});

CREATE TABLE stg_products (
  product_id BIGINT, name STRING, category STRING, price DECIMAL(12,2),
  created_at TIMESTAMP_LTZ(6), updated_at TIMESTAMP_LTZ(6),
  PRIMARY KEY (product_id) NOT ENFORCED
) WITH (${table});

CREATE TABLE stg_orders (
  order_id BIGINT, user_id BIGINT, status STRING, amount DECIMAL(12,2),
  created_at TIMESTAMP_LTZ(6), updated_at TIMESTAMP_LTZ(6), logdate STRING,
  PRIMARY KEY (order_id) NOT ENFORCED
) WITH (${table});

CREATE TABLE stg_order_items (
  item_id BIGINT, order_id BIGINT, product_id BIGINT, quantity INT, price DECIMAL(12,2),
  created_at TIMESTAMP_LTZ(6), logdate STRING,
  PRIMARY KEY (item_id) NOT ENFORCED
) WITH (${table});

CREATE TABLE stg_page_words (
  word_id BIGINT, user_id BIGINT, page STRING, word STRING, created_at TIMESTAMP_LTZ(6), logdate STRING,
  PRIMARY KEY (word_id) NOT ENFORCED
) WITH (${table});

CREATE TABLE dwd_orders (
  order_id BIGINT, user_id BIGINT, status STRING, amount DECIMAL(12,2),
  created_at TIMESTAMP_LTZ(6), updated_at TIMESTAMP_LTZ(6), logdate STRING,
  PRIMARY KEY (order_id) NOT ENFORCED
) WITH (${table});

CREATE TABLE dwd_order_items (
  item_id BIGINT, order_id BIGINT, user_id BIGINT, product_id BIGINT, city STRING, category STRING,
  product_name STRING, status STRING, quantity INT, amount DECIMAL(14,2), logdate STRING,
  PRIMARY KEY (item_id) NOT ENFORCED
) WITH (${table});

CREATE TABLE dwd_partition_word_count (
  word_id BIGINT, logdate STRING, user_id BIGINT, word STRING,
  PRIMARY KEY (word_id) NOT ENFORCED
) WITH (${table});

CREATE TABLE dws_user_hour (
  user_id BIGINT, logdate STRING, cnt BIGINT, amount DECIMAL(38,2),
  PRIMARY KEY (user_id, logdate) NOT ENFORCED
) WITH (${table});

CREATE TABLE dws_gmv_hour (
  logdate STRING, week_ago STRING, year_ago STRING, orders BIGINT, buyers BIGINT, gmv DECIMAL(38,2),
  PRIMARY KEY (logdate) NOT ENFORCED
) WITH (${table});

CREATE TABLE dws_gmv_day (
  `day` STRING, orders BIGINT, gmv DECIMAL(38,2),
  PRIMARY KEY (`day`) NOT ENFORCED
) WITH (${table});

CREATE TABLE dws_gmv_compared (
  logdate STRING, gmv DECIMAL(38,2), gmv_week_ago DECIMAL(38,2), gmv_year_ago DECIMAL(38,2),
  PRIMARY KEY (logdate) NOT ENFORCED
) WITH (${table});

CREATE TABLE dws_top_products (
  logdate STRING, `rank` BIGINT, product_id BIGINT, product_name STRING, category STRING,
  quantity BIGINT, amount DECIMAL(38,2),
  PRIMARY KEY (logdate, `rank`) NOT ENFORCED
) WITH (${table});

CREATE TABLE dws_partition_word_count (
  logdate STRING, user_id BIGINT, cnt BIGINT,
  PRIMARY KEY (logdate, user_id) NOT ENFORCED
) WITH (${table});

-- The format skips tombstones by itself.
CREATE TEMPORARY TABLE user_events (
  user_id BIGINT, name STRING, email STRING, city STRING,
  created_at TIMESTAMP_LTZ(6), updated_at TIMESTAMP_LTZ(6),
  PRIMARY KEY (user_id) NOT ENFORCED
) WITH (${kafka}, 'topic' = '${users}');

CREATE TEMPORARY TABLE product_events (
  product_id BIGINT, name STRING, category STRING, price DECIMAL(12,2),
  created_at TIMESTAMP_LTZ(6), updated_at TIMESTAMP_LTZ(6),
  PRIMARY KEY (product_id) NOT ENFORCED
) WITH (${kafka}, 'topic' = '${products}');

CREATE TEMPORARY TABLE order_events (
  order_id BIGINT, user_id BIGINT, status STRING, amount DECIMAL(12,2),
  created_at TIMESTAMP_LTZ(6), updated_at TIMESTAMP_LTZ(6),
  PRIMARY KEY (order_id) NOT ENFORCED
) WITH (${kafka}, 'topic' = '${orders}');

CREATE TEMPORARY TABLE item_events (
  item_id BIGINT, order_id BIGINT, product_id BIGINT, quantity INT, price DECIMAL(12,2),
  created_at TIMESTAMP_LTZ(6),
  PRIMARY KEY (item_id) NOT ENFORCED
) WITH (${kafka}, 'topic' = '${order_items}');

CREATE TEMPORARY TABLE word_events (
  word_id BIGINT, user_id BIGINT, page STRING, word STRING, created_at TIMESTAMP_LTZ(6),
  PRIMARY KEY (word_id) NOT ENFORCED
) WITH (${kafka}, 'topic' = '${page_words}');

-- One job: thirteen would each have a coordinator of checkpoints of their own.
EXECUTE STATEMENT SET
BEGIN
INSERT INTO stg_users SELECT * FROM user_events;
INSERT INTO stg_products SELECT * FROM product_events;
INSERT INTO stg_orders SELECT *, DATE_FORMAT(created_at, 'yyyyMMddHH') FROM order_events;
INSERT INTO stg_order_items SELECT *, DATE_FORMAT(created_at, 'yyyyMMddHH') FROM item_events;
INSERT INTO stg_page_words SELECT *, DATE_FORMAT(created_at, 'yyyyMMddHH') FROM word_events;

INSERT INTO dwd_orders
SELECT order_id, user_id, LOWER(TRIM(status)), amount, created_at, updated_at, logdate
FROM stg_orders ${read}
WHERE amount > 0;

INSERT INTO dwd_order_items
SELECT
  i.item_id, i.order_id, o.user_id, i.product_id, u.city, p.category, p.name, LOWER(TRIM(o.status)),
  i.quantity, CAST(i.quantity * i.price AS DECIMAL(14,2)), i.logdate
FROM stg_order_items ${read} i
INNER JOIN stg_orders ${read} o ON o.order_id = i.order_id
INNER JOIN stg_users ${read} u ON u.user_id = o.user_id
INNER JOIN stg_products ${read} p ON p.product_id = i.product_id;

INSERT INTO dwd_partition_word_count
SELECT word_id, logdate, user_id, LOWER(TRIM(word))
FROM stg_page_words ${read}
WHERE TRIM(word) <> '';

INSERT INTO dws_user_hour
SELECT user_id, logdate, COUNT(*), SUM(amount)
FROM dwd_orders ${read}
GROUP BY user_id, logdate;

INSERT INTO dws_gmv_hour
SELECT
  logdate,
  DATE_FORMAT(TO_TIMESTAMP(logdate, 'yyyyMMddHH') - INTERVAL '7' DAY, 'yyyyMMddHH'),
  DATE_FORMAT(TO_TIMESTAMP(logdate, 'yyyyMMddHH') - INTERVAL '364' DAY(3), 'yyyyMMddHH'),
  COUNT(*), COUNT(DISTINCT user_id),
  COALESCE(SUM(amount) FILTER (WHERE status IN ('paid', 'shipped', 'delivered')), 0)
FROM dwd_orders ${read}
GROUP BY logdate;

INSERT INTO dws_gmv_day
SELECT
  SUBSTR(logdate, 1, 8), COUNT(*),
  COALESCE(SUM(amount) FILTER (WHERE status IN ('paid', 'shipped', 'delivered')), 0)
FROM dwd_orders ${read}
GROUP BY SUBSTR(logdate, 1, 8);

INSERT INTO dws_gmv_compared
SELECT h.logdate, h.gmv, w.gmv, y.gmv
FROM dws_gmv_hour ${read} h
LEFT JOIN dws_gmv_hour ${read} w ON w.logdate = h.week_ago
LEFT JOIN dws_gmv_hour ${read} y ON y.logdate = h.year_ago;

INSERT INTO dws_top_products
SELECT logdate, `rank`, product_id, product_name, category, quantity, amount
FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY logdate ORDER BY amount DESC, product_id) AS `rank`
  FROM (
    SELECT
      logdate, product_id, MAX(product_name) AS product_name, MAX(category) AS category,
      CAST(SUM(quantity) AS BIGINT) AS quantity, SUM(amount) AS amount
    FROM dwd_order_items ${read}
    WHERE status IN ('paid', 'shipped', 'delivered')
    GROUP BY logdate, product_id
  )
)
WHERE `rank` <= 10;

INSERT INTO dws_partition_word_count
SELECT logdate, user_id, COUNT(*)
FROM dwd_partition_word_count ${read}
GROUP BY logdate, user_id;
END;
