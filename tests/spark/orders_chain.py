"""Layer files over a shop's orders that many tests share, and a warehouse of nine orders to begin with."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from harness import Harness, Source, layer

from headrace.engine.compaction.compaction import compact, write_local

HOURS = ("2026112010", "2026112011", "2026112012")
RANGE = "WHERE hour >= ${start_date} AND hour <= ${end_date}"
LAYERS = {
    "dwd/paid": layer("dwd.paid", "order_id", f"SELECT * FROM stg.orders {RANGE} AND amount > 0"),
    "dwd/cities": layer(
        "dwd.cities",
        "order_id",
        "SELECT o.order_id, u.user_id, u.city, o.amount, o.hour FROM stg.orders o "
        "JOIN stg.users u ON u.user_id = o.user_id WHERE o.hour >= ${start_date} AND o.hour <= ${end_date}",
    ),
    "dwd/maybe": layer(
        "dwd.maybe",
        "order_id",
        "SELECT o.order_id, u.city, o.hour FROM stg.orders o LEFT JOIN stg.users u ON u.user_id = o.user_id "
        "WHERE o.hour >= ${start_date} AND o.hour <= ${end_date}",
    ),
    "dws/by_user": layer(
        "dws.by_user",
        "user_id, hour",
        f"SELECT user_id, hour, count(*) AS cnt, sum(amount) AS amount FROM dwd.paid {RANGE} "
        "GROUP BY user_id, hour",
    ),
    "dws/by_city": layer(
        "dws.by_city",
        "city, hour",
        f"SELECT city, hour, count(DISTINCT user_id) AS users FROM dwd.cities {RANGE} GROUP BY city, hour",
    ),
    "dws/top": layer(
        "dws.top",
        "hour, place",
        "SELECT hour, place, order_id, amount FROM (SELECT hour, order_id, amount, row_number() OVER "
        f"(PARTITION BY hour ORDER BY amount DESC, order_id) AS place FROM dwd.paid {RANGE}) "
        "WHERE place <= 2",
    ),
    "dws/active": layer(  # EXISTS, NOT IN over a column with NULLs, a correlated scalar subquery
        "dws.active",
        "user_id",
        "SELECT u.user_id, u.city, (SELECT max(amount) FROM dwd.paid p WHERE p.user_id = u.user_id) AS most "
        "FROM stg.users u WHERE EXISTS (SELECT 1 FROM stg.orders o WHERE o.user_id = u.user_id) "
        "AND u.user_id NOT IN (SELECT user_id FROM stg.orders WHERE amount > 5)",
        partitioned=False,
    ),
    "dws/spread": layer(  # a nested aggregate and a FULL JOIN, grouped by what it merges
        "dws.spread",
        "user_id",
        "SELECT user_id, count(city) AS cities, sum(cnt) AS cnt FROM stg.users FULL JOIN (SELECT user_id, "
        "count(*) AS cnt FROM stg.orders WHERE user_id IS NOT NULL GROUP BY user_id) USING (user_id) "
        "GROUP BY user_id",
        partitioned=False,
    ),
    "dws/events": layer(  # a UNION that meets a free leaf
        "dws.events",
        "kind, order_id",
        "SELECT e.kind, e.order_id, u.city, e.hour FROM (SELECT 'all' AS kind, order_id, user_id, hour FROM "
        f"stg.orders {RANGE} UNION ALL SELECT 'paid', order_id, user_id, hour FROM dwd.paid {RANGE}) e "
        "LEFT JOIN stg.users u ON u.user_id = e.user_id",
    ),
    "dws/total": layer(
        "dws.total", "cnt", "SELECT count(*) AS cnt, sum(amount) AS amount FROM dwd.paid", partitioned=False
    ),
}


def change(source: Source, chance: random.Random) -> None:
    """One random change of the shop: inserts, updates, moves, deletes, users without orders and back."""
    if chance.random() < 0.3:
        user = chance.randint(1, 4)
        if user in source.rows["users"] and chance.random() < 0.4:
            source.delete("users", user)
        else:
            source.put("users", user_id=user, city=chance.choice(["Oslo", "Lima", None]))
        return
    key = chance.randint(1, 12)
    if key in source.rows["orders"] and chance.random() < 0.3:
        source.delete("orders", key)
        return
    source.put(
        "orders",
        order_id=key,
        user_id=chance.choice([1, 2, 3, 4, None]),
        amount=chance.choice(["0.00", "1.50", "2.00", "7.25", None]),
        hour=chance.choice(HOURS),
    )


def nine_orders(warehouse: Harness, *, compacted: bool = False) -> Harness:
    """Nine orders of two users in three hours, in every table; with `compacted` in the snapshots, too."""
    for key in range(1, 10):
        warehouse.source.put("orders", order_id=key, user_id=key % 2, amount=f"{key}.00", hour=HOURS[key % 3])
    warehouse.step()
    if compacted:
        for table in warehouse.registry:
            compact(warehouse.sessions.batch, table, run_id="test")
    return warehouse


def files(warehouse: Harness, name: str) -> dict[str, set[str]]:
    """Snapshot files by partition."""
    found: dict[str, set[str]] = {}
    table = DeltaTable(str(warehouse.table(name).store.snapshot.path))
    for path in table.file_uris():
        found.setdefault(Path(path).parent.name, set()).add(path)
    return found


def forget(warehouse: Harness, name: str, column: str, gone: Callable[[Any], bool]) -> None:
    """Lose the rows of the snapshot whose value of `column` is gone, as a wrong history has lost them."""
    table = warehouse.table(name)
    rows, version = table.store.head().read(), table.store.version
    kept = rows.filter([not gone(value) for value in rows.column(column).to_pylist()])
    write_local(table, kept, None, version=version, compacted=version, run_id="test")


def corrupt(warehouse: Harness, name: str, hour: str, *, column: str = "hour") -> None:
    """Forget the rows of one hour; all rows where there is no such hour."""
    forget(warehouse, name, column, lambda value: column != "hour" or value == hour)
