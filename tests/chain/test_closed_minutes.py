"""The real stack: heartbeats tell a quiet source's time, its minutes are closed, proven and opened again."""

from __future__ import annotations

from datetime import UTC, datetime

import psycopg
import pytest
from chain_support import eventually
from deltalake import DeltaTable
from running_shop import Shop

from headrace.spec import load_project
from headrace.store.creation import WATERMARK
from headrace.store.record.commits import latest

pytestmark = pytest.mark.long

TABLE = "dws.orders_minute"
MINUTE = "date_format(created_at, 'yyyyMMddHHmm')"
CREATE = f"""\
CREATE MATERIALIZED TABLE {TABLE} (PRIMARY KEY (minute))
PARTITIONED BY (minute)
WITH ('partition.fields.minute.date-formatter' = 'yyyyMMddHHmm', 'partition.complete.delay' = '2 SECOND',
      'run.mode' = 'real-time, offline')
FRESHNESS = INTERVAL '10' SECOND
AS SELECT {MINUTE} AS minute, count(*) AS cnt, sum(amount) AS amount FROM dwd.orders
WHERE {MINUTE} >= ${{start_date}} AND {MINUTE} <= ${{end_date}} GROUP BY {MINUTE}"""


def partitions(shop: Shop) -> dict[str, dict[str, object]]:
    return {p["label"]: p for p in shop.client.run(f"SHOW PARTITIONS {TABLE}").result}


def closed(shop: Shop, label: str, runs: int) -> dict[str, object]:
    """Wait for the minute's outcome."""
    return eventually(
        f"{label} has run {runs} times",
        lambda: (p := partitions(shop).get(label)) and p["runs"] == runs and p["outcome"] != "WAITING" and p,
    )


def test_a_quiet_source_closes_its_minutes(shop: Shop) -> None:
    shop.client.run(CREATE)
    shop.project = load_project(shop.settings.project)
    shop.wait_running()
    eventually("it was looked at", lambda: shop.status()[TABLE].complete_through is not None)
    with shop.load(seed=51):
        shop.wait_advanced(TABLE, by=3)
    shop.wait_caught_up()
    with psycopg.connect(shop.dsn, autocommit=True) as connection:
        newest, key = connection.execute(
            "SELECT created_at, order_id FROM orders WHERE amount > 0 ORDER BY created_at DESC LIMIT 1"
        ).fetchone()  # type: ignore[misc]
        label = f"{newest.astimezone(UTC):%Y%m%d%H%M}"
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
        found = closed(shop, label, 1)
        assert (found["outcome"], found["reopened"]) == ("EQUAL", 0)
        assert str(found["watermark"]) > f"{newest.astimezone(UTC):%Y-%m-%dT%H:%M}"
        connection.execute("UPDATE orders SET amount = amount + 1 WHERE order_id = %s", (key,))
        found = closed(shop, label, 2)
        assert (found["outcome"], found["reopened"]) == ("EQUAL", 1)
    snapshot = shop.path(TABLE, "snapshot")
    assert WATERMARK in DeltaTable(str(snapshot)).metadata().configuration
    recorded = latest(shop.path(TABLE, "changelog"))
    assert recorded is not None and recorded[1].watermark_ms > 0
    shop.verify(TABLE)
    shop.client.run(f"DROP MATERIALIZED TABLE {TABLE}")
    shop.project = load_project(shop.settings.project)
