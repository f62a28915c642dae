SELECT to_char(created_at AT TIME ZONE 'UTC', 'YYYYMMDDHH24') AS logdate,
       count(*) AS orders,
       count(DISTINCT user_id) AS buyers,
       coalesce(sum(amount) FILTER (WHERE lower(btrim(status, ' ')) IN ('paid', 'shipped', 'delivered')), 0) AS gmv
FROM orders
WHERE amount > 0
GROUP BY 1
