"""The shop in a real PostgreSQL: its data, the load on it, and the dws queries it answers itself."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import duckdb
import psycopg
import pytest
import sqlglot
from sqlglot import exp

from headrace.demo import oracle
from headrace.demo.changes import Shop, change_order_key, choose, delete_order, insert_order, perform
from headrace.demo.load import LoadGenerator
from headrace.demo.multisets import compare, tuples
from headrace.demo.shop import PROBE_ORDER, TABLES, create_shop, row_counts
from headrace.errors import TerminalError
from headrace.services.stack import Stack
from headrace.spec import load_project

pytestmark = pytest.mark.chain

NOW = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
REPOSITORY = Path(__file__).parents[2]

CreateDatabase = Callable[[], str]


def create_small_shop(dsn: str, *, seed: int, reset: bool = False) -> bool:
    return create_shop(dsn, seed=seed, now=NOW, orders=3_000, users=60, products=20, words=800, reset=reset)


@pytest.fixture
def database(stack: Stack) -> Iterator[CreateDatabase]:
    """Makes empty databases, and drops them after the test."""
    server = stack.settings.postgres_dsn()
    made: list[str] = []

    def create() -> str:
        name = f"shop_{random.randrange(10**12)}"
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        made.append(name)
        return psycopg.conninfo.make_conninfo(server, dbname=name)

    yield create
    with psycopg.connect(server, autocommit=True) as connection:
        for name in made:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture
def small_shop(database: CreateDatabase) -> str:
    dsn = database()
    assert create_small_shop(dsn, seed=7)
    return dsn


def rows(dsn: str, query: str) -> list[tuple[object, ...]]:
    with psycopg.connect(dsn) as connection:
        return connection.execute(query.encode()).fetchall()


def contents(dsn: str, *, without: tuple[str, ...] = ()) -> dict[str, list[tuple[object, ...]]]:
    """All rows, less the columns that depend on the clock."""
    with psycopg.connect(dsn) as connection:
        found = {}
        for table in TABLES:
            cursor = connection.execute(f"SELECT * FROM {table} ORDER BY 1".encode())
            assert cursor.description is not None
            kept = [i for i, column in enumerate(cursor.description) if column.name not in without]
            found[table] = [tuple(row[i] for i in kept) for row in cursor]
        return found


def test_the_same_seed_gives_the_same_shop(database: CreateDatabase) -> None:
    first, second, other = database(), database(), database()
    for dsn, seed in ((first, 7), (second, 7), (other, 8)):
        create_small_shop(dsn, seed=seed)
    assert contents(first) == contents(second)
    assert contents(first)["orders"] != contents(other)["orders"]


def test_the_shop_is_as_large_and_as_dirty_as_wanted(small_shop: str) -> None:
    counts = row_counts(small_shop)
    items = counts.pop("order_items")
    assert counts == {"users": 61, "products": 20, "orders": 3_001, "page_words": 800}
    assert 1.5 < items / 3_000 < 1.9
    ((oldest, newest),) = rows(small_shop, "SELECT min(created_at), max(updated_at) FROM orders")
    assert newest == NOW and oldest >= NOW - timedelta(days=365)
    ((old,),) = rows(small_shop, "SELECT count(*) FROM orders WHERE created_at < '2026-02-20 12:30Z'")
    assert old == 3_000 // 20  # none between a year and eight days ago
    assert rows(small_shop, "SELECT 1 FROM orders WHERE status <> lower(btrim(status)) LIMIT 1")
    assert rows(small_shop, "SELECT 1 FROM orders WHERE amount = 0 LIMIT 1")
    assert rows(small_shop, "SELECT 1 FROM orders WHERE amount < 0 LIMIT 1")
    assert rows(small_shop, "SELECT 1 FROM page_words WHERE btrim(word) = '' LIMIT 1")
    assert not rows(
        small_shop,
        "SELECT 1 FROM orders o JOIN order_items i USING (order_id)"
        " WHERE i.created_at <> o.created_at LIMIT 1",
    )
    full = rows(small_shop, "SELECT relname FROM pg_class WHERE relreplident = 'f' ORDER BY 1")
    assert [name for (name,) in full] == sorted(TABLES)


def test_every_hour_of_today_has_the_same_weekdays_a_week_and_a_year_before(small_shop: str) -> None:
    with psycopg.connect(small_shop) as connection:
        columns, found = oracle.expected(connection, "dws.gmv_compared")
    assert columns == ("logdate", "gmv", "gmv_week_ago", "gmv_year_ago")
    today = [row for row in found if row[0].startswith(f"{NOW:%Y%m%d}")]
    assert [row[0][8:] for row in sorted(today)] == [f"{hour:02}" for hour in range(13)]
    assert all(row[2] is not None and row[3] is not None for row in today)


def test_an_existing_shop_is_kept_until_a_reset(small_shop: str) -> None:
    rows_before = contents(small_shop)
    assert not create_small_shop(small_shop, seed=8)
    assert contents(small_shop) == rows_before
    assert create_small_shop(small_shop, seed=8, reset=True)
    assert contents(small_shop) != rows_before


def test_a_database_of_something_else_is_refused(database: CreateDatabase) -> None:
    dsn = database()
    with psycopg.connect(dsn) as connection:
        connection.execute("CREATE TABLE orders (id int)")
    with pytest.raises(TerminalError, match="lacks order_items, page_words"):
        create_small_shop(dsn, seed=7)


def change(dsn: str, *, seed: int, times: int) -> list[str]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        shop = Shop.read(connection, seed)
        kinds = []
        for _ in range(times):
            kind = choose(shop)
            assert perform(shop, kind) >= 1
            kinds.append(kind)
    return kinds


def test_the_same_seed_makes_the_same_changes(database: CreateDatabase) -> None:
    first, second = database(), database()
    for dsn in (first, second):
        create_small_shop(dsn, seed=7)
    kinds = change(first, seed=3, times=400)
    assert kinds == change(second, seed=3, times=400)
    assert len(set(kinds)) >= 10
    clock = ("created_at", "updated_at")
    assert contents(first, without=clock) == contents(second, without=clock)


def test_a_changed_key_takes_the_items_along_and_a_delete_leaves_none(small_shop: str) -> None:
    with psycopg.connect(small_shop, autocommit=True) as connection:
        shop = Shop.read(connection, seed=1)
        insert_order(shop)
        order = shop.orders[-1]
        shop.orders = [order]
        items = connection.execute("SELECT count(*) FROM order_items WHERE order_id = %s", [order]).fetchone()
        assert items is not None
        assert change_order_key(shop) == 1 + items[0]
        (moved,) = shop.orders
        assert moved != order
        assert rows(small_shop, f"SELECT count(*) FROM order_items WHERE order_id = {moved}") == [items]
        assert delete_order(shop) == 1 + items[0]
    assert rows(small_shop, f"SELECT count(*) FROM order_items WHERE order_id IN ({order}, {moved})") == [
        (0,)
    ]


def test_ticks_are_what_the_probe_order_shows_and_go_on_in_the_next_run(small_shop: str) -> None:
    last = 1
    for _ in range(2):
        load = LoadGenerator(small_shop, seed=1, rate=200, interval=0.02, probe=True)
        with load:
            while len(load.ticks) < 5:
                load.raise_if_failed()
        assert [tick for tick, _ in load.ticks] == list(range(last + 1, last + 1 + len(load.ticks)))
        assert load.last_tick is not None
        last = load.last_tick
        assert rows(small_shop, f"SELECT amount FROM orders WHERE order_id = {PROBE_ORDER}") == [(last,)]
        assert load.changes >= 4 * sum(load.done.values()) / 10


def test_a_load_that_fails_says_so(database: CreateDatabase) -> None:
    load = LoadGenerator(database(), seed=1)
    with pytest.raises(TerminalError, match=r"load on the shop failed.*orders"), load:
        load.join(30)


def test_postgres_counts_as_a_person_would(database: CreateDatabase) -> None:
    dsn = database()
    create_small_shop(dsn, seed=7)
    with psycopg.connect(dsn) as connection:
        connection.execute("SET LOCAL TIME ZONE 'Asia/Tokyo'")  # labels are UTC whatever the session says
        connection.execute(
            """
            DELETE FROM order_items; DELETE FROM orders; DELETE FROM page_words;
            INSERT INTO orders VALUES
              (1, 1, ' PAID', 10.50, '2026-02-28 23:59:59.999999+00', now()),
              (2, 1, 'created', 5, '2026-02-28 23:00:00+00', now()),
              (3, 2, 'paid', 0, '2026-02-28 23:00:00+00', now()),
              (4, 2, 'cancelled', 7.25, '2026-03-01 00:00:00+00', now()),
              (5, 3, 'paid', 3.00, '2025-03-02 00:10:00+00', now()),
              (6, 4, 'paid', 1.00, '2026-03-07 00:00:00+00', now()),
              (7, 4, 'shipped', 2.00, '2026-03-07 23:10:00+00', now());
            UPDATE products SET name = 'lamp', category = 'home' WHERE product_id = 1;
            UPDATE products SET name = 'rug', category = 'home' WHERE product_id = 2;
            INSERT INTO order_items VALUES
              (1, 1, 2, 2, 3.00, '2026-02-28 23:59:59.999999+00'),
              (2, 1, 1, 1, 6.00, '2026-02-28 23:59:59.999999+00'),
              (3, 3, 1, 1, 0.01, '2026-03-01 01:00:00+00'),
              (4, 4, 1, 9, 9.00, '2026-03-01 00:00:00+00');
            INSERT INTO page_words VALUES
              (1, 1, '/', ' Mill', '2026-03-01 00:00:00+00'), (2, 1, '/', '  ', '2026-03-01 00:00:00+00'),
              (3, 1, '/', '', '2026-03-01 01:00:00+00'), (4, 1, '/', 'mill', '2026-03-01 00:59:59+00');
            """
        )
        found = {table: sorted(oracle.expected(connection, table)[1], key=str) for table in oracle.TABLES}
        connection.rollback()
    assert found == {
        "dws.user_hour": [
            (1, "2026022823", 2, Decimal("15.50")),
            (2, "2026030100", 1, Decimal("7.25")),
            (3, "2025030200", 1, Decimal("3.00")),
            (4, "2026030700", 1, Decimal("1.00")),
            (4, "2026030723", 1, Decimal("2.00")),
        ],
        "dws.gmv_hour": [
            ("2025030200", "2025022300", "2024030300", 1, 1, Decimal("3.00")),
            ("2026022823", "2026022123", "2025030123", 2, 1, Decimal("10.50")),
            ("2026030100", "2026022200", "2025030200", 1, 1, 0),
            ("2026030700", "2026022800", "2025030800", 1, 1, Decimal("1.00")),
            ("2026030723", "2026022823", "2025030823", 1, 1, Decimal("2.00")),
        ],
        "dws.gmv_day": [
            ("20250302", 1, Decimal("3.00")),
            ("20260228", 2, Decimal("10.50")),
            ("20260301", 1, 0),
            ("20260307", 2, Decimal("3.00")),
        ],
        # a Sunday beside the Sunday 52 weeks before; an hour of a Saturday beside the one before
        "dws.gmv_compared": [
            ("2025030200", Decimal("3.00"), None, None),
            ("2026022823", Decimal("10.50"), None, None),
            ("2026030100", 0, None, Decimal("3.00")),
            ("2026030700", Decimal("1.00"), None, None),
            ("2026030723", Decimal("2.00"), Decimal("10.50"), None),
        ],
        # equal amounts: the lower product id stands first
        "dws.top_products": [
            ("2026022823", 1, 1, "lamp", "home", 1, Decimal("6.00")),
            ("2026022823", 2, 2, "rug", "home", 2, Decimal("6.00")),
            ("2026030101", 1, 1, "lamp", "home", 1, Decimal("0.01")),
        ],
        "dws.partition_word_count": [("2026030100", 1, 2)],
    }


def layers_in_duckdb(dsn: str) -> duckdb.DuckDBPyConnection:
    """Every layer file's own query, translated, over a copy of the shop."""
    engine = duckdb.connect()
    engine.execute("SET TimeZone = 'UTC'")
    for schema in ("stg", "dwd", "dws", "source"):
        engine.execute(f"CREATE SCHEMA {schema}")
    with psycopg.connect(dsn) as connection:
        for table in TABLES:
            cursor = connection.execute(
                "SELECT column_name, CASE WHEN data_type = 'numeric' THEN 'decimal(12,2)' ELSE data_type END"
                " FROM information_schema.columns WHERE table_name = %s ORDER BY ordinal_position",
                [table],
            )
            engine.execute(f"CREATE TABLE source.{table} ({', '.join(f'{n} {t}' for n, t in cursor)})")
            copied = connection.execute(f"SELECT * FROM {table}".encode()).fetchall()
            engine.executemany(
                f"INSERT INTO source.{table} VALUES ({', '.join('?' * len(copied[0]))})", copied
            )
    for spec in load_project(REPOSITORY).tables.values():
        text = re.sub(r"\$\{start_date\}", "'1970010100'", spec.query)
        tree = sqlglot.parse_one(re.sub(r"\$\{end_date\}", "'9999010123'", text), dialect="spark")
        for leaf in tree.find_all(exp.Table):
            if leaf.catalog:
                leaf.replace(exp.to_table(f"source.{leaf.name}", alias=leaf.alias or None))
        engine.execute(f"CREATE TABLE {spec.name} AS {tree.sql(dialect='duckdb')}")
    return engine


def test_postgres_and_the_layers_agree_after_a_day_of_changes(small_shop: str) -> None:
    change(small_shop, seed=5, times=600)
    engine = layers_in_duckdb(small_shop)
    with psycopg.connect(small_shop) as connection:
        for table in oracle.TABLES:
            columns, expected = oracle.expected(connection, table)
            layered = engine.sql(f"SELECT * FROM {table}").to_arrow_table()
            assert set(columns) == set(layered.column_names)
            found = compare(columns, table=tuples(layered, columns), expected=expected)
            assert found.equal, (table, found.sample)
            assert found.rows > 10, table
