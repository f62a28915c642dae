SELECT user_id,
       to_char(created_at AT TIME ZONE 'UTC', 'YYYYMMDDHH24') AS logdate,
       count(*) AS cnt,
       sum(amount) AS amount
FROM orders
WHERE amount > 0
GROUP BY 1, 2
