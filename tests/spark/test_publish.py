"""Publishing: the rows of a table in a real PostgreSQL are its rows, whatever happened in between."""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC
from typing import Any

import psycopg
import pytest
from harness import Captured, Harness, layer
from orders_chain import HOURS, LAYERS, change, corrupt, nine_orders

from headrace.catalog import Catalog
from headrace.engine.compaction.compaction import compact
from headrace.engine.publishing.publisher import READER, Publisher
from headrace.errors import TerminalError, TransientError
from headrace.services.scratch import scratch_settings
from headrace.services.stack import Stack
from headrace.spec.publishing import read_target
from headrace.targets.postgres import PublishedTable

CHAIN = {k: LAYERS[k] for k in ("dwd/paid", "dwd/cities", "dws/by_city")}
PAID = {"dwd/paid": LAYERS["dwd/paid"]}
TARGET = "reports.rows"
Connection = psycopg.Connection[Any]
Publish = Callable[..., Publisher]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of an empty PostgreSQL."""
    with scratch_settings(tmp_path_factory.mktemp("project")) as settings:
        stack = Stack(settings)
        try:
            stack.up(only=["postgres"])
            yield settings.postgres_dsn()
        finally:
            stack.down()


@pytest.fixture
def database(server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    """A connection to it; what a test has made there is gone afterwards."""
    monkeypatch.setenv("HEADRACE_TARGET_URL", server)
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("SET timezone = 'UTC'")
        yield connection
        connection.execute("DROP SCHEMA IF EXISTS reports CASCADE")


@pytest.fixture
def publish(catalog: Catalog) -> Publish:
    """A publisher of one table, as a server has it that has just started. It runs where it is told to."""

    def make(warehouse: Harness, table: str, *, id_: str = "one", target: str = TARGET) -> Publisher:
        return Publisher(
            warehouse.table(table).name,
            read_target("${env:HEADRACE_TARGET_URL}", target),
            warehouse.registry,
            warehouse.sessions,
            catalog.readers,
            id_,
            warehouse.root / "scratch",
        )

    return make


def rows(database: Connection, table: str = TARGET) -> list[tuple[Any, ...]]:
    return sorted(database.execute(f"SELECT * FROM {table}").fetchall(), key=repr)


def naive(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Times with a zone as they are in UTC."""
    return [
        tuple(v.astimezone(UTC).replace(tzinfo=None) if getattr(v, "tzinfo", None) else v for v in row)
        for row in rows
    ]


def position(database: Connection, table: str) -> int:
    query = "SELECT version FROM reports.headrace_published WHERE 'reports.' || table_name = %s"
    [(version,)] = database.execute(query, (table,)).fetchall()
    return int(version)


def loads(caplog: pytest.LogCaptureFixture) -> int:
    """How often all rows were compared."""
    return sum("is published at version" in record.getMessage() for record in caplog.records)


def test_it_follows_inserts_updates_deletes_and_nulls(
    harness: Callable[..., Harness], publish: Publish, database: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    """NULL is a city, too: a key whose NULLs are equal. Now and then it begins anew, as after a kill."""
    caplog.set_level(logging.INFO)
    chance, warehouse = random.Random(7), nine_orders(harness(CHAIN))
    names = {table: f"reports.{table.partition('.')[2]}" for table in ("stg.orders", "dws.by_city")}
    published = {table: publish(warehouse, table, target=target) for table, target in names.items()}
    for turn in range(9):
        for _ in range(chance.randint(1, 6)):
            change(warehouse.source, chance)
        warehouse.step()
        if turn % 3 == 2:  # several versions at once
            continue
        for table, target in names.items():
            if turn % 5 == 4:
                published[table] = publish(warehouse, table, target=target)
            published[table].catch_up()
            assert rows(database, target) == warehouse.rows(table)
            assert position(database, target) == warehouse.table(table).store.version
    assert loads(caplog) == len(names)


def test_a_backfill_and_a_compaction_are_changes_like_others(
    harness: Callable[..., Harness], publish: Publish, database: Connection
) -> None:
    warehouse = nine_orders(harness(PAID), compacted=True)
    published = publish(warehouse, "dwd.paid")
    published.catch_up()
    corrupt(warehouse, "dwd.paid", HOURS[1])
    warehouse.open()
    published = publish(warehouse, "dwd.paid")
    warehouse.backfill("dwd.paid", HOURS[1], HOURS[1])
    published.catch_up()
    assert rows(database) == warehouse.rows("dwd.paid")
    compact(warehouse.sessions.batch, warehouse.table("dwd.paid"), run_id="test")
    warehouse.source.delete("orders", 1)
    warehouse.step()
    published.catch_up()
    assert rows(database) == warehouse.rows("dwd.paid")


def test_changes_that_are_gone_are_found_by_comparing(
    harness: Callable[..., Harness], publish: Publish, database: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    """Retention has removed what it lacks: all rows are compared, and only what differs is written."""
    caplog.set_level(logging.INFO)
    warehouse = nine_orders(harness(PAID))
    publish(warehouse, "dwd.paid").catch_up()
    [(kept,)] = database.execute("SELECT xmin::text FROM reports.rows WHERE order_id = 5").fetchall()
    warehouse.source.delete("orders", 1)
    warehouse.source.put("orders", order_id=2, user_id=1, amount="20.00", hour=HOURS[0])
    warehouse.source.put("orders", order_id=30, user_id=1, amount="3.00", hour=HOURS[0])
    warehouse.step()
    store = warehouse.table("dwd.paid").store
    store.changelog.removed = store.version
    publish(warehouse, "dwd.paid").catch_up()
    assert rows(database) == warehouse.rows("dwd.paid")
    assert loads(caplog) == 2
    assert database.execute("SELECT xmin::text FROM reports.rows WHERE order_id = 5").fetchall() == [(kept,)]


def test_more_than_the_driver_holds_goes_by_files(
    harness: Callable[..., Harness], publish: Publish, database: Connection
) -> None:
    warehouse = nine_orders(harness(PAID))
    warehouse.limit(rows=3, changes=3)
    published = publish(warehouse, "stg.orders")
    published.catch_up()
    for key in range(20, 30):
        warehouse.source.put("orders", order_id=key, user_id=1, amount="1.00", hour=HOURS[0])
    warehouse.source.delete("orders", 3)
    warehouse.feed()
    published.catch_up()
    assert rows(database) == warehouse.rows("stg.orders")
    assert not list((warehouse.root / "scratch").glob("*"))


def test_what_somebody_else_has_written_is_shown_and_mended(
    harness: Callable[..., Harness], publish: Publish, database: Connection
) -> None:
    warehouse = nine_orders(harness(PAID))
    published = publish(warehouse, "dwd.paid")
    published.catch_up()
    database.execute("DELETE FROM reports.rows WHERE order_id = 1")
    database.execute("UPDATE reports.rows SET amount = 0 WHERE order_id IN (2, 3)")
    database.execute("INSERT INTO reports.rows SELECT 99, 1, 1.0, hour FROM reports.rows LIMIT 1")
    found = published.check(dry_run=True)
    assert (found.rows, found.missing, found.different, found.extra) == (9, 1, 2, 1)
    assert sorted(int(key["order_id"]) for key in found.examples) == [1, 2, 3, 99]
    assert published.check(dry_run=False) == found
    assert rows(database) == warehouse.rows("dwd.paid")
    assert published.check(dry_run=True).equal


def test_every_type_and_every_text(
    harness: Callable[..., Harness], publish: Publish, database: Connection
) -> None:
    columns = (
        *(
            ("id", "bigint"),
            ("small", "smallint"),
            ("yes", "boolean"),
            ("f", "real"),
            ("d", "double precision"),
        ),
        *(("n", "numeric(38,10)"), ("t", "text"), ("b", "bytea"), ("day", "date")),
        *(("at", "timestamp with time zone"), ("plain", "timestamp without time zone")),
    )
    nested = (
        "SELECT id, array(t, NULL) AS parts, named_struct('a', n, 'b', map('k', d)) AS whole "
        "FROM stg.things WHERE id < 3"
    )
    warehouse = harness(
        {"dwd/nested": layer("dwd.nested", "id", nested, partitioned=False)},
        sources={"things": Captured(columns, ("id",))},
    )
    texts = ["", " ", "NULL", "\\N", '"', "'; DROP TABLE reports.rows; --", "a,b\nc\td\\", "ä\u2028😀", None]
    for key, text in enumerate(texts):
        warehouse.source.put(
            "things",
            id=key,
            small=-32768,
            yes=None if key == 2 else key % 2 == 0,
            f=[0.1, "NaN", "-Infinity"][key % 3],
            d=[1e-300, "NaN", "Infinity"][key % 3] if key else 0.1,
            n="-1234567890123456789012345678.0123456789",
            t=text,
            b=None if key == 1 else ["", "/w==", "AAEC"][key % 3],
            day="1900-02-28",
            at="0001-01-01T00:00:00.000001Z",
            plain="9999-12-31T23:59:59.999999",
        )
    warehouse.step()
    publish(warehouse, "stg.things").catch_up()
    shown = ", ".join("f::double precision" if name == "f" else name for name, _ in columns)
    found = database.execute(f"SELECT {shown} FROM reports.rows ORDER BY id").fetchall()
    assert repr(naive(found)) == repr(naive(sorted(warehouse.rows("stg.things"))))
    publish(warehouse, "dwd.nested", target="reports.nested").catch_up()
    found = database.execute("SELECT id, parts, whole FROM reports.nested ORDER BY id").fetchall()
    assert [(i, parts) for i, parts, _ in found] == [(0, ["", None]), (1, [" ", None]), (2, ["NULL", None])]
    assert found[0][2] == {"a": "-1234567890123456789012345678.0123456789", "b": {"k": 0.1}}
    assert found[1][2]["b"] == {"k": "NaN"}


def test_a_value_that_postgresql_refuses_is_named_and_nothing_of_it_is_there(
    harness: Callable[..., Harness], publish: Publish, database: Connection
) -> None:
    warehouse = harness(PAID)
    warehouse.source.put("users", user_id=1, city="Oslo")
    warehouse.feed()
    published = publish(warehouse, "stg.users")
    published.catch_up()
    warehouse.source.put("users", user_id=2, city="Lima")
    warehouse.source.put("users", user_id=3, city="a\x00b")
    warehouse.feed()
    with pytest.raises(TerminalError, match=r"reports\.rows.*`stg\.users`.*0x00.*headrace_staged"):
        published.catch_up()
    assert rows(database) == [(1, "Oslo")]
    warehouse.source.put("users", user_id=3, city="ab")
    warehouse.feed()
    with pytest.raises(TerminalError):  # the row is still among the changes
        published.catch_up()
    published.check(dry_run=False)  # as the error says
    assert rows(database) == [(1, "Oslo"), (2, "Lima"), (3, "ab")]
    warehouse.source.delete("users", 1)
    warehouse.feed()
    published.catch_up()
    assert rows(database) == [(2, "Lima"), (3, "ab")]


def test_a_table_of_somebody_else_is_left_alone(
    harness: Callable[..., Harness], publish: Publish, database: Connection
) -> None:
    warehouse = nine_orders(harness(PAID))
    database.execute("CREATE SCHEMA reports")
    database.execute("CREATE TABLE reports.rows (order_id bigint, amount text, other int)")
    database.execute("INSERT INTO reports.rows VALUES (1, 'mine', 1)")
    published = publish(warehouse, "dwd.paid")
    with pytest.raises(TerminalError) as refused:
        published.catch_up()
    for said in (
        "made by somebody else",
        "it lacks user_id bigint",
        "its amount is text",
        "its other is not",
    ):
        assert said in str(refused.value)
    assert rows(database) == [(1, "mine", 1)]
    database.execute("DROP TABLE reports.rows")
    published.catch_up()
    assert rows(database) == warehouse.rows("dwd.paid")


def test_one_that_fits_is_taken_with_the_rows_that_it_has(
    harness: Callable[..., Harness], publish: Publish, database: Connection
) -> None:
    warehouse = nine_orders(harness(PAID))
    database.execute("CREATE SCHEMA reports")
    declared = "order_id bigint PRIMARY KEY, user_id bigint, amount numeric(12,2), hour text"
    database.execute(f"CREATE TABLE reports.rows ({declared})")
    database.execute("INSERT INTO reports.rows VALUES (77, 1, 1, 'x')")
    publish(warehouse, "dwd.paid").catch_up()
    assert rows(database) == warehouse.rows("dwd.paid")


def test_another_warehouse_keeps_off(
    harness: Callable[..., Harness], publish: Publish, database: Connection
) -> None:
    warehouse = nine_orders(harness(PAID))
    publish(warehouse, "dwd.paid").catch_up()
    with pytest.raises(
        TerminalError, match=r"another warehouse, as dwd\.paid.*DELETE FROM reports"
    ) as refused:
        publish(warehouse, "dwd.paid", id_="two").catch_up()
    database.execute(str(refused.value).partition("is gone: ")[2])
    publish(warehouse, "dwd.paid", id_="two").catch_up()
    assert rows(database) == warehouse.rows("dwd.paid")


def test_other_columns_make_its_own_table_anew(
    harness: Callable[..., Harness], publish: Publish, database: Connection
) -> None:
    warehouse = nine_orders(harness(PAID))
    publish(warehouse, "dwd.paid").catch_up()
    publish(warehouse, "stg.users").catch_up()
    assert rows(database) == warehouse.rows("stg.users")


def test_the_changelog_is_kept_for_it(
    harness: Callable[..., Harness], publish: Publish, database: Connection, catalog: Catalog
) -> None:
    warehouse = nine_orders(harness(PAID))
    publish(warehouse, "dwd.paid").catch_up()
    known = catalog.readers.find("dwd.paid", READER)
    assert known is not None and known.position == warehouse.table("dwd.paid").store.version


def test_a_lost_connection_is_made_again(
    harness: Callable[..., Harness], publish: Publish, database: Connection, server: str
) -> None:
    warehouse = nine_orders(harness(PAID))
    published = publish(warehouse, "dwd.paid")
    published.catch_up()
    database.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
        "AND datname = current_database()"
    )
    warehouse.source.delete("orders", 1)
    warehouse.step()
    with pytest.raises(TransientError, match=r"reports\.rows at .* does not answer"):
        published.catch_up()
    published.catch_up()
    assert rows(database) == warehouse.rows("dwd.paid")


def test_changes_are_applied_to_the_position_that_they_follow(
    harness: Callable[..., Harness], publish: Publish, database: Connection
) -> None:
    """Somebody else has moved it, a server that was thought dead: nothing is applied, and it begins anew."""
    warehouse = nine_orders(harness(PAID))
    paused, other = publish(warehouse, "dwd.paid"), publish(warehouse, "dwd.paid")
    paused.catch_up()
    warehouse.source.put("orders", order_id=2, user_id=1, amount="20.00", hour=HOURS[0])
    warehouse.step()
    other.catch_up()
    with pytest.raises(TerminalError, match=r"somebody else has written reports\.rows"):
        paused.catch_up()
    paused.catch_up()
    assert rows(database) == warehouse.rows("dwd.paid")

    table, there = warehouse.table("dwd.paid"), read_target("${env:HEADRACE_TARGET_URL}", TARGET)
    dsn = there.dsn(os.environ)
    with PublishedTable(there, dsn, "dwd.paid", table.store.schema, "one") as late:
        found = late.open()
        assert found is not None
        with pytest.raises(TerminalError, match="a later version"):
            late.replace([], replace(found, version=found.version - 1), 0)
    assert rows(database) == warehouse.rows("dwd.paid")
