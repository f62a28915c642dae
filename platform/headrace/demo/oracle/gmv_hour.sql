SELECT to_char(hour, 'YYYYMMDDHH24') AS logdate,
       to_char(hour - interval '7 days', 'YYYYMMDDHH24') AS week_ago,
       to_char(hour - interval '364 days', 'YYYYMMDDHH24') AS year_ago,
       count(*) AS orders,
       count(DISTINCT user_id) AS buyers,
       coalesce(sum(amount) FILTER (WHERE lower(btrim(status, ' ')) IN ('paid', 'shipped', 'delivered')), 0) AS gmv
FROM orders, LATERAL (SELECT date_trunc('hour', created_at AT TIME ZONE 'UTC') AS hour)
WHERE amount > 0
GROUP BY hour
