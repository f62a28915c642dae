SELECT to_char(created_at AT TIME ZONE 'UTC', 'YYYYMMDD') AS day,
       count(*) AS orders,
       coalesce(sum(amount) FILTER (WHERE lower(btrim(status, ' ')) IN ('paid', 'shipped', 'delivered')), 0) AS gmv
FROM orders
WHERE amount > 0
GROUP BY 1
