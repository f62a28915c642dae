SELECT to_char(created_at AT TIME ZONE 'UTC', 'YYYYMMDDHH24') AS logdate,
       user_id,
       count(*) AS cnt
FROM page_words
WHERE btrim(word, ' ') <> ''
GROUP BY 1, 2
