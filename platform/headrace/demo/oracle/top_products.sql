WITH sales AS (
  SELECT to_char(i.created_at AT TIME ZONE 'UTC', 'YYYYMMDDHH24') AS logdate,
         i.product_id,
         sum(i.quantity) AS quantity,
         sum(i.quantity * i.price) AS amount
  FROM order_items AS i
  JOIN orders AS o USING (order_id)
  WHERE lower(btrim(o.status, ' ')) IN ('paid', 'shipped', 'delivered')
  GROUP BY 1, 2
), ranked AS (
  SELECT *, row_number() OVER (PARTITION BY logdate ORDER BY amount DESC, product_id) AS rank
  FROM sales
)
SELECT r.logdate, r.rank, r.product_id, p.name AS product_name, p.category, r.quantity, r.amount
FROM ranked AS r
JOIN products AS p USING (product_id)
WHERE r.rank <= 10
