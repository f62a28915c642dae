CREATE CATALOG paimon WITH ('type' = 'paimon', 'warehouse' = '${warehouse}');
USE CATALOG paimon;

CREATE TABLE stg_orders (
  order_id BIGINT, user_id BIGINT, product_id INT, amount DECIMAL(12,2), status STRING,
  created_at TIMESTAMP_LTZ(6), updated_at TIMESTAMP_LTZ(6),
  PRIMARY KEY (order_id) NOT ENFORCED
) WITH (${table});

CREATE TABLE dwd_orders (
  order_id BIGINT, user_id BIGINT, amount DECIMAL(12,2), logdate STRING,
  PRIMARY KEY (order_id) NOT ENFORCED
) WITH (${table});

CREATE TABLE dws_user_hour (
  user_id BIGINT, logdate STRING, cnt BIGINT, amt DECIMAL(38,2),
  PRIMARY KEY (user_id, logdate) NOT ENFORCED
) WITH (${table});

-- The format skips tombstones by itself.
CREATE TEMPORARY TABLE order_events (
  order_id BIGINT, user_id BIGINT, product_id INT, amount DECIMAL(12,2), status STRING,
  created_at TIMESTAMP_LTZ(6), updated_at TIMESTAMP_LTZ(6),
  PRIMARY KEY (order_id) NOT ENFORCED
) WITH (${kafka}, 'topic' = '${orders}');

-- Each a streaming job of its own, readers before what they read.
INSERT INTO dws_user_hour
SELECT user_id, logdate, COUNT(*), SUM(amount)
FROM dwd_orders ${read}
GROUP BY user_id, logdate;

INSERT INTO dwd_orders
SELECT order_id, user_id, amount, DATE_FORMAT(created_at, 'yyyyMMddHH')
FROM stg_orders ${read}
WHERE amount > 1;

INSERT INTO stg_orders SELECT * FROM order_events;
