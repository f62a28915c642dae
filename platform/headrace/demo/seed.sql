-- Everything follows from (seed, now, counts): each value is a hash of the row's id and a salt.
-- The function lives in pg_temp, so the shop's schema holds nothing but its tables.
CREATE FUNCTION pg_temp.pick(id bigint, salt bigint, n bigint) RETURNS bigint
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN ((hashint8extended(id, {seed} * 1000 + salt) % n) + n) % n;

-- User 0 and order 0 belong to the freshness probe and are no target of the load generator.
INSERT INTO users
SELECT u,
       CASE WHEN u = 0 THEN 'Probe'
            ELSE (ARRAY['Ada','Bo','Chen','Dara','Eko','Fée','Gül','Hana','Ivo','Jón'])[1 + pg_temp.pick(u, 1, 10)]
                 || ' ' || u END,
       'user' || u || '@shop.example',
       (ARRAY['Oslo','Lima','Pune','Kyoto','Cork','Graz','Turku','Split',NULL])[1 + pg_temp.pick(u, 2, 9)],
       t, t
FROM generate_series(0, {users}) AS u,
     LATERAL (SELECT {now} - interval '30 days' - pg_temp.pick(u, 3, 31536000) * interval '1 second' AS t) AS created;

INSERT INTO products
SELECT p, 'product ' || p,
       (ARRAY['books','games','garden','kitchen','music','tools'])[1 + pg_temp.pick(p, 11, 6)],
       (100 + pg_temp.pick(p, 12, 19900))::numeric / 100, t, t
FROM generate_series(1, {products}) AS p,
     LATERAL (SELECT {now} - interval '400 days' + pg_temp.pick(p, 13, 31536000) * interval '1 second' AS t) AS created;

-- Ids grow with time, to the microsecond: one order in twenty lies around the day 52 weeks ago, the others in the last
-- 8 days, so each hour of today has the same weekday's a week and a year before. 1.7 items an order: one for half, two,
-- three.
CREATE TEMPORARY TABLE seeded_order ON COMMIT DROP AS
SELECT o AS order_id,
       1 + pg_temp.pick(o, 21, {users}) AS user_id,
       CASE WHEN o <= {orders} / 20
            THEN {now} - interval '365 days' + (93599::float8 * (o - 1) / ({orders} / 20)) * interval '1 second'
            ELSE {now} - interval '8 days'
                 + (691199::float8 * (o - 1 - {orders} / 20) / ({orders} - {orders} / 20)) * interval '1 second'
       END + pg_temp.pick(o, 22, 1000000) * interval '1 microsecond' AS created_at,
       (ARRAY[1,1,1,1,1,2,2,2,3,3])[1 + pg_temp.pick(o, 23, 10)] AS items
FROM generate_series(1, {orders}) AS o;

CREATE TEMPORARY TABLE seeded_item ON COMMIT DROP AS
SELECT row_number() OVER (ORDER BY order_id, line) AS item_id, order_id,
       1 + pg_temp.pick(order_id * 8 + line, 31, {products}) AS product_id,
       (1 + pg_temp.pick(order_id * 8 + line, 32, 4))::int AS quantity,
       created_at
FROM seeded_order, generate_series(1, items) AS line;

-- Some statuses carry blanks or capitals and some amounts are not positive: what dwd has to clean.
INSERT INTO orders
SELECT o.order_id, o.user_id,
       CASE pg_temp.pick(o.order_id, 41, 40)
         WHEN 0 THEN ' ' || s.status WHEN 1 THEN s.status || '  ' WHEN 2 THEN upper(s.status)
         WHEN 3 THEN ' ' || initcap(s.status) || ' ' ELSE s.status END,
       CASE pg_temp.pick(o.order_id, 42, 200) WHEN 0 THEN 0 WHEN 1 THEN -t.amount ELSE t.amount END,
       o.created_at,
       least({now}, o.created_at + pg_temp.pick(o.order_id, 43, 86400) * interval '1 second')
FROM seeded_order AS o
JOIN (SELECT i.order_id, sum(i.quantity * p.price) AS amount
      FROM seeded_item AS i JOIN products AS p USING (product_id) GROUP BY i.order_id) AS t USING (order_id),
     LATERAL (SELECT (ARRAY['created','paid','paid','paid','shipped','shipped','delivered','delivered','delivered',
                            'cancelled'])[1 + pg_temp.pick(o.order_id, 44, 10)] AS status) AS s
ORDER BY o.order_id;

INSERT INTO orders VALUES (0, 0, 'paid', 1, {now}, {now});

INSERT INTO order_items
SELECT i.item_id, i.order_id, i.product_id, i.quantity, p.price, i.created_at
FROM seeded_item AS i JOIN products AS p USING (product_id)
ORDER BY i.item_id;

-- A fortieth of the words is blank or padded.
INSERT INTO page_words
SELECT w, 1 + pg_temp.pick(w, 51, {users}), '/page/' || pg_temp.pick(w, 52, 40),
       CASE pg_temp.pick(w, 53, 80) WHEN 0 THEN '' WHEN 1 THEN '   '
         ELSE (ARRAY['river','mill','wheel','stone','flour','sluice','gate','pond','race','weir','Grain','SACK'])
              [1 + pg_temp.pick(w, 54, 12)] END,
       {now} - interval '7 days' + (604799::float8 * (w - 1) / {words}) * interval '1 second'
FROM generate_series(1, {words}) AS w;

SELECT setval(pg_get_serial_sequence('orders', 'order_id'), {orders}),
       setval(pg_get_serial_sequence('order_items', 'item_id'), (SELECT max(item_id) FROM order_items)),
       setval(pg_get_serial_sequence('page_words', 'word_id'), {words});
