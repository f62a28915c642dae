"""The warehouse server in the real stack: a small shop, Debezium, Kafka, and kills at bad moments."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterator

import duckdb
import psutil
import psycopg
import pytest
from chain_support import eventually
from confluent_kafka import Producer
from deltalake import DeltaTable
from running_servers import refusal
from running_shop import Shop

from headrace.gateway.client import StatementRefused
from headrace.results import DeadLettersResult, RefreshResult, TableStatus
from headrace.services import processes
from headrace.services.scratch import free_ports
from headrace.sources.stream.broker import Broker
from headrace.store.record.commits import history
from headrace.store.schema import BACKFILL, KIND, ORIGIN, VERSION

WATCHED = "dws.user_hour"


@pytest.fixture(scope="module", autouse=True)
def proven(running_shop: Shop) -> Iterator[None]:
    """What these tests have left is equal to its SQL and its source, under load, and then to what PostgreSQL
    itself computes.

    Once, at the end: comparing every table costs more than any of the tests. Those that kill replay the
    changelogs, which keep what was lost or done twice.
    """
    yield
    running_shop.wait_running()
    with running_shop.load(seed=8) as load:
        running_shop.wait_advanced("stg.orders", WATCHED)
        running_shop.verify()
        load.raise_if_failed()
    running_shop.check_against_postgres()
    running_shop.check_changelogs()


def test_snapshot_and_increments_without_hand_over(shop: Shop) -> None:
    shop.wait_caught_up()
    with shop.load(seed=1, rate=400) as load:
        eventually("200 changes", lambda: load.changes >= 200)
    shop.wait_caught_up()
    with shop.load(seed=2) as load:
        shop.wait_advanced("stg.orders", WATCHED)
        load.raise_if_failed()
    shop.check_changelogs()


def test_killed_between_two_commits_each_change_is_applied_once(shop: Shop) -> None:
    """Twice in a row: the server that makes good for the first kill dies at another point."""
    with shop.load(seed=3):
        pid = shop.pid
        for failpoint in ("flow.before_checkpoint=kill@2", "flow.after_commit=kill@3"):
            assert pid is not None
            shop.arm(failpoint)
            pid = shop.wait_replaced(pid)
        shop.wait_answers()
        shop.wait_running()
        shop.wait_advanced(WATCHED)
    shop.check_changelogs()


@pytest.mark.long
def test_a_server_whose_jvm_is_killed_ends_with_it_and_another_goes_on_where_it_was(shop: Shop) -> None:
    """Under load. That servers are killed themselves is above, at worse moments."""
    with shop.load(seed=4):
        shop.wait_advanced(WATCHED, by=2)
        before = shop.status()
        pid = shop.pid
        assert pid is not None
        [jvm] = [child for child in psutil.Process(pid).children() if "java" in child.name()]
        jvm.kill()
        shop.wait_replaced(pid)
        shop.wait_answers()
        shop.wait_running()
        after = shop.status()
        assert all(after[table].version >= before[table].version for table in before)
        shop.wait_advanced("stg.orders", "dwd.orders", WATCHED)
    shop.check_changelogs()


@pytest.mark.long
def test_what_statements_have_set_stays_over_down_and_up(shop: Shop) -> None:
    state = shop.settings.state
    scheduled = "ALTER MATERIALIZED TABLE dws.top_products SET REFRESH_MODE = INCREMENTAL"
    assert shop.client.run(scheduled).result["moved"] == {"dws.top_products": "INCREMENTAL"}
    by_minute = "ALTER MATERIALIZED TABLE dws.gmv_day SET FRESHNESS = INTERVAL '24' SECOND"
    assert shop.client.run(by_minute).result["moved"] == {"dws.gmv_day": "CONTINUOUS"}
    with shop.load(seed=5):
        shop.client.run(f"ALTER MATERIALIZED TABLE {WATCHED} SUSPEND")
        suspended = shop.status()[WATCHED]
        assert suspended.state == "SUSPENDED"
        shop.wait_advanced("stg.orders", "dwd.orders", "dws.gmv_hour", by=2)
        assert shop.status()[WATCHED].version == suspended.version
    eventually("its neighbours are at rest", lambda: not lags(shop, except_for=WATCHED))
    created = (
        "CREATE MATERIALIZED TABLE dws.users_seen (PRIMARY KEY (n)) FRESHNESS = INTERVAL '10' SECOND AS "
    )
    shop.client.run(created + "SELECT count(DISTINCT user_id) AS n FROM dwd.orders")
    eventually("the new table has its row", lambda: shop.status()["dws.users_seen"].rows == 1)
    before = shop.status()
    edited = shop.settings.project / "layers" / "dws" / "top_products.sql"
    text = edited.read_text()
    edited.write_text(text.replace("\nSELECT", "\nSELECT 1 AS one,", 1))

    pids = [s.pid for s in shop.stack.status() if s.pid is not None]
    shop.stack.down()
    assert processes.marked(state) == []
    assert not any(psutil.pid_exists(pid) for pid in pids)
    shop.stack.up(only=["connect", "warehouse"])

    eventually("the tables are back", lambda: shop.status()["stg.orders"].state == "RUNNING")
    after = shop.status()
    assert {t: s.version for t, s in after.items()} == {t: s.version for t, s in before.items()}
    assert {t: s.rows for t, s in after.items()} == {t: s.rows for t, s in before.items()}
    assert after[WATCHED].state == "SUSPENDED"
    assert after["dws.top_products"].mode == "INCREMENTAL"
    assert after["dws.gmv_day"].mode == "CONTINUOUS"
    # What was edited meanwhile waits for `apply`: rows and text belong together.
    [waiting] = shop.client.run("APPLY DRY RUN").result["tables"]
    assert (waiting["table"], waiting["change"]) == ("dws.top_products", "LOGIC")
    edited.write_text(text)
    assert shop.client.run("APPLY").result["tables"] == []
    shop.client.run("DROP MATERIALIZED TABLE dws.users_seen")
    reset = "ALTER MATERIALIZED TABLE dws.top_products RESET REFRESH_MODE"
    assert shop.client.run(reset).result["moved"] == {"dws.top_products": "CONTINUOUS"}
    daily = "ALTER MATERIALIZED TABLE dws.gmv_day RESET FRESHNESS"
    assert shop.client.run(daily).result["moved"] == {"dws.gmv_day": "INCREMENTAL"}
    with shop.load(seed=6):
        shop.wait_advanced("stg.orders", "dwd.orders", "dws.gmv_hour")
        assert shop.status()[WATCHED].version == suspended.version
        shop.client.run(f"ALTER MATERIALIZED TABLE {WATCHED} RESUME")
        shop.wait_running()
        shop.wait_advanced(WATCHED)
    shop.wait_caught_up()
    shop.check_changelogs()


def lags(shop: Shop, *, except_for: str) -> dict[str, int | None]:
    return {t: s.lag for t, s in shop.status().items() if s.lag != 0 and t != except_for}


def test_a_backfill_beside_the_stream_emits_nothing(shop: Shop) -> None:
    [hours] = shop.client.query(
        f"SELECT array_agg(logdate) AS hours FROM (SELECT DISTINCT logdate FROM {WATCHED})"
    ).to_pylist()
    labels = sorted(hours["hours"])[-40:-30]
    with shop.load(seed=7):
        shop.wait_advanced(WATCHED)
        before = shop.status()[WATCHED].version
        statement = shop.client.run(
            f"ALTER MATERIALIZED TABLE {WATCHED} REFRESH PARTITION "
            f"(logdate BETWEEN '{labels[0]}' AND '{labels[-1]}')"
        )
        result = RefreshResult.model_validate(statement.result)
        assert (result.inserted, result.updated, result.deleted) == (0, 0, 0)
        assert set(labels) <= set(result.partitions) and result.rows > 0
        eventually("the stream goes on", lambda: shop.status()[WATCHED].version > before)
    origins = set(shop.client.query(f"CHANGES {WATCHED}").column(ORIGIN).to_pylist())
    assert BACKFILL not in origins


def test_no_micro_batch_ends_inside_a_transaction(shop: Shop) -> None:
    """Each transaction writes one number into two tables: after every micro-batch both must hold the same."""
    shop.wait_caught_up()
    before = shop.status()
    numbers = itertools.count(1)
    with psycopg.connect(shop.dsn, autocommit=True) as connection:
        found = connection.execute("SELECT order_id, min(item_id) FROM order_items GROUP BY 1 LIMIT 1")
        order, item = found.fetchall()[0]

        def advanced() -> bool:
            for number in itertools.islice(numbers, 50):
                with connection.transaction():
                    connection.execute("UPDATE orders SET amount = %s WHERE order_id = %s", (number, order))
                    connection.execute(
                        "UPDATE order_items SET quantity = %s WHERE item_id = %s", (number, item)
                    )
            return shop.status()["stg.orders"].version >= before["stg.orders"].version + 6

        eventually("six micro-batches", advanced)
    shop.wait_caught_up()
    orders = by_batch(shop, "stg.orders", before, f"order_id = {order}", "amount")
    items = by_batch(shop, "stg.order_items", before, f"item_id = {item}", "quantity")
    assert orders == items
    assert len(orders) >= 6


def by_batch(
    shop: Shop, table: str, before: dict[str, TableStatus], row: str, column: str
) -> dict[tuple[str, int], int]:
    """The column's value in one row after each micro-batch since `before`."""
    changelog = shop.path(table, "changelog")
    made_by = {commit.version: (commit.run_id, commit.batch) for _, commit in history(changelog)}
    with duckdb.connect() as engine:
        engine.register("log", DeltaTable(str(changelog)).to_pyarrow_dataset())
        found = engine.execute(
            f"SELECT {VERSION}, {column} FROM log "
            f"WHERE {row} AND {KIND} = '+U' AND {VERSION} > ? ORDER BY ALL",
            [before[table].version],
        ).fetchall()
    return {made_by[version]: int(value) for version, value in found}


def test_a_message_that_is_not_json_is_put_aside_and_the_stream_goes_on(shop: Shop) -> None:
    delivered: list[tuple[int, int]] = []
    producer = Producer(Broker.of(shop.settings).client())
    producer.produce(
        "shop.public.orders",
        key=b'{"order_id": 1}',
        value=b"no json {\xff",
        on_delivery=lambda error, message: delivered.append((message.partition(), message.offset())),
    )
    assert producer.flush(30) == 0
    [(partition, offset)] = delivered
    eventually("it is counted", lambda: shop.status()["stg.orders"].dead_letters == 1)
    [letter] = shop.client.run("SHOW DEAD LETTERS stg.orders").result
    assert (letter["topic"], letter["partition"], letter["offset"]) == (
        "shop.public.orders", partition, offset,
    )  # fmt: skip
    assert letter["value"] == "no json {\ufffd" and "JSON" in letter["reason"]
    assert base64.b64decode(letter["raw_value"]) == b"no json {\xff"
    with psycopg.connect(shop.dsn) as connection:
        found = connection.execute(
            "INSERT INTO orders (user_id, status, amount, created_at, updated_at)"
            " VALUES (1, 'created', 4.20, now(), now()) RETURNING order_id"
        ).fetchone()
    assert found is not None
    select = f"SELECT amount FROM dwd.orders WHERE order_id = {found[0]}"
    eventually("the next order", lambda: shop.client.query(select).num_rows == 1)
    assert shop.status()["stg.orders"].state == "RUNNING"
    letters = f"ALTER MATERIALIZED TABLE stg.orders {{}} DEAD LETTERS AT '{partition}:{offset}'"
    again = DeadLettersResult.model_validate(shop.client.run(letters.format("REPLAY")).result)
    assert again.replayed == 0 and "JSON" in again.refused[0]["reason"]
    dropped = shop.client.run(letters.format("DROP") + " REASON 'a test''s'").result
    assert DeadLettersResult.model_validate(dropped).dropped == 1
    assert shop.status()["stg.orders"].dead_letters == 0
    [settled] = shop.client.run("SHOW ALL DEAD LETTERS stg.orders").result
    assert (settled["outcome"], settled["why"]) == ("dropped", "a test's")


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        (
            f"ALTER MATERIALIZED TABLE {WATCHED} REFRESH PARTITION (logdate = '2026-01-01')",
            [f"'2026-01-01' is no partition of {WATCHED}", "format yyyyMMddHH", "user_hour.sql:"],
        ),
        (
            f"ALTER MATERIALIZED TABLE {WATCHED} REFRESH PARTITION "
            "(logdate BETWEEN '2026010205' AND '2026010204')",
            ["starts at '2026010205', after its end '2026010204'", "exchange them"],
        ),
        ("SELECT * FROM dws.user_huor", ["dws.user_huor", f"did you mean `{WATCHED}`"]),
        ("VERIFY dws.user_huor", ["no table `dws.user_huor`", f"did you mean `{WATCHED}`"]),
    ],
)
def test_bad_requests_are_refused_before_anything_runs(shop: Shop, statement: str, told: list[str]) -> None:
    known = len(shop.client.statements())
    with pytest.raises(StatementRefused) as refused:
        shop.client.submit(statement)
    for text in told:
        assert text in str(refused.value)
    assert len(shop.client.statements()) == known


def test_a_second_server_on_the_same_data_is_refused(shop: Shop) -> None:
    names = ("gateway_port", "spark_connect_port", "flight_sql_port")
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    other = shop.settings.model_copy(update=ports)
    error = refusal(other)
    assert "is held by another warehouse server" in error
    assert f"process {shop.pid} of " in error
    assert shop.client.query(f"SELECT count(*) AS n FROM {WATCHED}").num_rows == 1


def test_other_engines_read_the_snapshot(shop: Shop) -> None:
    shop.wait_caught_up()
    eventually("compaction", lambda: shop.status()[WATCHED].tail_rows == 0)
    columns = "user_id, logdate, cnt, amount"
    snapshot = DeltaTable(str(shop.path(WATCHED, "snapshot"))).to_pyarrow_dataset()
    with duckdb.connect() as engine:
        engine.register("snapshot", snapshot)
        read = engine.execute(f"SELECT {columns} FROM snapshot ORDER BY ALL").fetchall()
    live = shop.client.query(f"SELECT {columns} FROM {WATCHED}").to_pylist()
    assert read and read == sorted(tuple(row.values()) for row in live)
