"""The real stack, minute by minute: heartbeats tell a quiet source's time, and its minutes are closed.

One table streams, and the batch proves its minutes; the other one is written by the batch and no stream.
Both have the same minutes, so that they are waited for once.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from chain_support import eventually
from deltalake import DeltaTable
from running_shop import Shop

from headrace.gateway.errors import StatementFailed
from headrace.results import ParityResult
from headrace.spec import load_project
from headrace.store.creation import WATERMARK
from headrace.store.record.commits import latest

pytestmark = pytest.mark.long

PROVEN, ALONE = "dws.orders_minute", "dws.minute_alone"
MINUTES, READER = "dwd.order_minutes", "dws.minute_total"
MINUTE = "date_format(created_at, 'yyyyMMddHHmm')"
CREATE_PROVEN = f"""\
CREATE MATERIALIZED TABLE {PROVEN} (PRIMARY KEY (minute))
PARTITIONED BY (minute)
WITH ('partition.fields.minute.date-formatter' = 'yyyyMMddHHmm', 'partition.complete.delay' = '2 SECOND',
      'run.mode' = 'real-time, offline')
FRESHNESS = INTERVAL '10' SECOND
AS SELECT {MINUTE} AS minute, count(*) AS cnt, sum(amount) AS amount FROM dwd.orders
WHERE {MINUTE} >= ${{start_date}} AND {MINUTE} <= ${{end_date}} GROUP BY {MINUTE}"""
OFFLINE = "'run.mode' = 'offline', "
RECENT = f"{datetime.now(UTC) - timedelta(minutes=5):%Y-%m-%d %H:%M:%S}Z"
CREATE_MINUTES = f"""\
CREATE MATERIALIZED TABLE {MINUTES} (PRIMARY KEY (order_id))
FRESHNESS = INTERVAL '10' SECOND
AS SELECT order_id, amount, {MINUTE} AS minute FROM dwd.orders
WHERE created_at >= timestamp'{RECENT}'"""
CREATE_ALONE = f"""\
CREATE OR ALTER MATERIALIZED TABLE {ALONE} (PRIMARY KEY (minute))
PARTITIONED BY (minute)
WITH ({OFFLINE}'partition.fields.minute.date-formatter' = 'yyyyMMddHHmm',
      'partition.complete.delay' = '2 SECOND')
FRESHNESS = INTERVAL '10' SECOND
AS SELECT minute, count(*) AS cnt, sum(amount) AS amount FROM {MINUTES} GROUP BY minute"""
CREATE_READER = f"""\
CREATE MATERIALIZED TABLE {READER} (PRIMARY KEY (minutes))
FRESHNESS = INTERVAL '10' SECOND
AS SELECT count(*) AS minutes, sum(cnt) AS orders FROM {ALONE}"""


def closed(shop: Shop, table: str, label: str, runs: int) -> tuple[object, ...]:
    """Wait until the minute has run so often: its outcome, and how often it was opened again."""

    def found() -> dict[str, Any] | None:
        known = {p["label"]: p for p in shop.client.run(f"SHOW PARTITIONS {table}").result}.get(label)
        return known if known and known["runs"] == runs and known["outcome"] != "WAITING" else None

    partition = eventually(f"{label} of {table} has run {runs} times", found) or {}
    assert str(partition["watermark"]) > f"{datetime.strptime(label, '%Y%m%d%H%M'):%Y-%m-%dT%H:%M}"
    return partition["outcome"], partition["reopened"]


def proven(shop: Shop) -> str:
    """The partition up to which the proof says that the batch has written the table."""
    [result] = shop.client.run(f"VERIFY {ALONE}").result
    parity = ParityResult.model_validate(result)
    assert parity.equal and parity.error is None, parity
    return parity.complete_through


def newest(shop: Shop) -> str:
    [found] = shop.client.query(f"SELECT max(minute) AS newest FROM {ALONE}").column("newest").to_pylist()
    return str(found or "")


def wait_for_a_quiet_minute(shop: Shop) -> None:
    quiet, version = datetime.now(UTC), shop.status()["stg.orders"].version
    eventually(
        "every watermark goes on without a change",
        lambda: all(
            s.watermark is not None and s.watermark > quiet
            for s in shop.status().values()
            if s.mode == "CONTINUOUS"  # that of a daily report stands as long as the report does
        ),
    )
    assert shop.status()["stg.orders"].version == version


def test_minutes_are_closed_by_the_stream_and_by_the_batch_alone(shop: Shop) -> None:
    for created in (CREATE_PROVEN, CREATE_MINUTES, CREATE_ALONE, CREATE_READER):
        shop.client.run(created)
    shop.project = load_project(shop.settings.project)
    shop.wait_running()
    status = shop.status()[ALONE]
    assert (status.mode, status.run_mode, status.lag) == ("INCREMENTAL", "offline", None)
    assert ALONE not in {w["table"] for w in shop.client.run("SHOW WORKFLOWS").result}
    eventually("it was looked at", lambda: shop.status()[PROVEN].complete_through is not None)
    with shop.load(seed=61):
        shop.wait_advanced(MINUTES, PROVEN, by=3)
    eventually("all changes are applied", lambda: shop.status()["stg.orders"].lag == 0)
    with psycopg.connect(shop.dsn, autocommit=True) as source:
        when, key = source.execute(
            "SELECT created_at, order_id FROM orders WHERE amount > 0 ORDER BY created_at DESC LIMIT 1"
        ).fetchone()  # type: ignore[misc]
        label = f"{when.astimezone(UTC):%Y%m%d%H%M}"
        assert newest(shop) < label
        with pytest.raises(StatementFailed, match=f"partition '{label}' is not complete"):
            shop.client.run(f"ALTER MATERIALIZED TABLE {ALONE} REFRESH PARTITION (minute = '{label}')")
        wait_for_a_quiet_minute(shop)
        change = "UPDATE orders SET amount = amount + 1 WHERE order_id = %s"
        assert closed(shop, ALONE, label, 1) == ("WRITTEN", 0)
        assert closed(shop, PROVEN, label, 1) == ("EQUAL", 0)
        assert newest(shop) == label and proven(shop) >= label
        source.execute(change, (key,))
        assert closed(shop, ALONE, label, 2) == ("WRITTEN", 1)
        assert closed(shop, PROVEN, label, 2) == ("EQUAL", 1)
        assert proven(shop) >= label

        shop.client.run(f"ALTER MATERIALIZED TABLE {ALONE} SUSPEND")
        source.execute(change, (key,))
        shop.kill()
        eventually("it is suspended still", lambda: shop.status()[ALONE].state == "SUSPENDED")
        with pytest.raises(StatementFailed, match=f"headrace resume {ALONE}"):
            shop.client.run(f"ALTER MATERIALIZED TABLE {ALONE} REFRESH NEW")
        shop.client.run(f"ALTER MATERIALIZED TABLE {ALONE} RESUME")
        assert closed(shop, ALONE, label, 3) == ("WRITTEN", 2)
    assert WATERMARK in DeltaTable(str(shop.path(PROVEN, "snapshot"))).metadata().configuration
    recorded = latest(shop.path(PROVEN, "changelog"))
    assert recorded is not None and recorded[1].watermark_ms > 0
    shop.wait_running()
    shop.client.run(f"ALTER MATERIALIZED TABLE {ALONE} REFRESH NEW")
    shop.verify(PROVEN, ALONE, READER)
    lets_it_stream(shop)
    for table in (READER, ALONE, MINUTES, PROVEN):
        shop.client.run(f"DROP MATERIALIZED TABLE {table}")
    shop.project = load_project(shop.settings.project)


def lets_it_stream(shop: Shop) -> None:
    """The table that the batch alone writes streams after one statement, and does not after another."""
    result = shop.client.run(CREATE_ALONE.replace(OFFLINE, "")).result
    assert [t["change"] for t in result["tables"] if t["table"] == ALONE] == ["RECOMPUTED"]
    shop.project = load_project(shop.settings.project)
    shop.wait_running()
    with shop.load(seed=62):
        shop.wait_advanced(ALONE, by=3)
    shop.wait_caught_up()
    assert proven(shop) == "" and shop.status()[ALONE].mode == "CONTINUOUS"
    shop.client.run(CREATE_ALONE)
    shop.wait_running()
    eventually("the batch alone has written it", lambda: proven(shop) != "")
    assert "" < newest(shop) <= proven(shop)
    shop.verify(ALONE, READER)
