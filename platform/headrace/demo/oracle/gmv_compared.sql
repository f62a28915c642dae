WITH hours AS (
  SELECT date_trunc('hour', created_at AT TIME ZONE 'UTC') AS hour,
         coalesce(sum(amount) FILTER (WHERE lower(btrim(status, ' ')) IN ('paid', 'shipped', 'delivered')), 0) AS gmv
  FROM orders
  WHERE amount > 0
  GROUP BY 1
)
SELECT to_char(hour, 'YYYYMMDDHH24') AS logdate,
       gmv,
       (SELECT w.gmv FROM hours AS w WHERE w.hour = hours.hour - interval '7 days') AS gmv_week_ago,
       (SELECT y.gmv FROM hours AS y WHERE y.hour = hours.hour - interval '52 weeks') AS gmv_year_ago
FROM hours
