-- layers/dwd/order_items.sql
CREATE MATERIALIZED TABLE dwd.order_items (
  PRIMARY KEY (item_id)
)
COMMENT 'Order lines with their order, user and product; logdate is the line''s own hour'
PARTITIONED BY (logdate)
WITH ('partition.fields.logdate.date-formatter' = 'yyyyMMddHH')
FRESHNESS = DOWNSTREAM
AS
SELECT
  i.item_id, i.order_id, o.user_id, i.product_id,
  u.city, p.category, p.name AS product_name,
  lower(trim(o.status)) AS status,
  i.quantity, CAST(i.quantity * i.price AS DECIMAL(14, 2)) AS amount,
  i.logdate
FROM stg.order_items i
INNER JOIN stg.orders o ON o.order_id = i.order_id
INNER JOIN stg.users u ON u.user_id = o.user_id
INNER JOIN stg.products p ON p.product_id = i.product_id
WHERE i.logdate >= ${start_date} AND i.logdate <= ${end_date}
