"""A SELECT of several tables reads them at one cut, while all of them change."""

from __future__ import annotations

from running_shop import Shop

SOLD = """
WITH sold AS (
  SELECT logdate, product_id, SUM(quantity) AS quantity, SUM(amount) AS amount
  FROM dwd.order_items WHERE status IN ('paid', 'shipped', 'delivered') GROUP BY logdate, product_id
), best AS (
  SELECT logdate, rank, product_id, quantity, amount FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY logdate ORDER BY amount DESC, product_id) AS rank FROM sold
  ) WHERE rank <= 10
), held AS (SELECT logdate, rank, product_id, quantity, amount FROM dws.top_products)
SELECT * FROM (SELECT * FROM best EXCEPT ALL SELECT * FROM held)
UNION ALL SELECT * FROM (SELECT * FROM held EXCEPT ALL SELECT * FROM best)
"""
"""What a table that trails and the one that it reads, which trails, too, do not agree about."""

HOURS = """
SELECT * FROM (
  SELECT logdate, count(*) AS orders FROM stg.orders WHERE amount > 0 GROUP BY logdate
) FULL OUTER JOIN (
  SELECT logdate, orders AS counted FROM dws.gmv_hour
) USING (logdate) WHERE NOT orders <=> counted
"""
"""Hours of which the first and the last layer do not tell the same."""


def test_tables_under_load_agree(shop: Shop) -> None:
    shop.wait_caught_up()
    begun = {name: status.version for name, status in shop.status().items()}
    read = 0
    with shop.load(seed=77):
        while read < 3 or not _all_moved(shop, begun):
            for query in (SOLD, HOURS):
                assert shop.client.query(query).to_pylist() == []
            read += 1


def _all_moved(shop: Shop, begun: dict[str, int]) -> bool:
    names = ("stg.orders", "dwd.order_items", "dws.top_products", "dws.gmv_hour")
    return all(shop.status()[name].version > begun[name] + 3 for name in names)
