"""The real stack: no stream writes a table, its batch does, minute by minute, until it is to stream."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from chain_support import eventually
from running_shop import Shop

from headrace.gateway.errors import StatementFailed
from headrace.results import ParityResult
from headrace.spec import load_project

pytestmark = pytest.mark.long

MINUTES, TABLE, READER = "dwd.order_minutes", "dws.minute_alone", "dws.minute_total"
OFFLINE = "'run.mode' = 'offline', "
RECENT = f"{datetime.now(UTC) - timedelta(minutes=5):%Y-%m-%d %H:%M:%S}Z"
CREATE_MINUTES = f"""\
CREATE MATERIALIZED TABLE {MINUTES} (PRIMARY KEY (order_id))
FRESHNESS = INTERVAL '10' SECOND
AS SELECT order_id, amount, date_format(created_at, 'yyyyMMddHHmm') AS minute FROM dwd.orders
WHERE created_at >= timestamp'{RECENT}'"""
CREATE = f"""\
CREATE OR ALTER MATERIALIZED TABLE {TABLE} (PRIMARY KEY (minute))
PARTITIONED BY (minute)
WITH ({OFFLINE}'partition.fields.minute.date-formatter' = 'yyyyMMddHHmm',
      'partition.complete.delay' = '2 SECOND')
FRESHNESS = INTERVAL '10' SECOND
AS SELECT minute, count(*) AS cnt, sum(amount) AS amount FROM {MINUTES} GROUP BY minute"""
CREATE_READER = f"""\
CREATE MATERIALIZED TABLE {READER} (PRIMARY KEY (minutes))
FRESHNESS = INTERVAL '10' SECOND
AS SELECT count(*) AS minutes, sum(cnt) AS orders FROM {TABLE}"""


def outcome(shop: Shop, label: str, runs: int) -> dict[str, Any]:
    """Wait until the minute has run so often."""

    def found() -> dict[str, Any] | None:
        known = {p["label"]: p for p in shop.client.run(f"SHOW PARTITIONS {TABLE}").result}.get(label)
        return known if known and known["runs"] == runs and known["outcome"] != "WAITING" else None

    return eventually(f"{label} has run {runs} times", found) or {}


def proven(shop: Shop) -> str:
    """The partition up to which the proof says that the batch has written the table."""
    [result] = shop.client.run(f"VERIFY {TABLE}").result
    parity = ParityResult.model_validate(result)
    assert parity.equal and parity.error is None, parity
    return parity.complete_through


def newest(shop: Shop) -> str:
    [found] = shop.client.query(f"SELECT max(minute) AS newest FROM {TABLE}").column("newest").to_pylist()
    return str(found or "")


def test_the_batch_alone_writes_a_table_until_it_streams(shop: Shop) -> None:
    for created in (CREATE_MINUTES, CREATE, CREATE_READER):
        shop.client.run(created)
    shop.project = load_project(shop.settings.project)
    shop.wait_running()
    status = shop.status()[TABLE]
    assert (status.mode, status.run_mode, status.lag) == ("INCREMENTAL", "offline", None)
    assert TABLE not in {w["table"] for w in shop.client.run("SHOW WORKFLOWS").result}
    with shop.load(seed=61):
        shop.wait_advanced(MINUTES, by=3)
    with psycopg.connect(shop.dsn, autocommit=True) as connection:
        when, key = connection.execute(
            "SELECT created_at, order_id FROM orders WHERE amount > 0 ORDER BY created_at DESC LIMIT 1"
        ).fetchone()  # type: ignore[misc]
        label = f"{when.astimezone(UTC):%Y%m%d%H%M}"
        assert newest(shop) < label
        with pytest.raises(StatementFailed, match=f"partition '{label}' is not complete"):
            shop.client.run(f"ALTER MATERIALIZED TABLE {TABLE} REFRESH PARTITION (minute = '{label}')")
        assert outcome(shop, label, 1)["outcome"] == "WRITTEN"
        assert newest(shop) == label and proven(shop) >= label
        connection.execute("UPDATE orders SET amount = amount + 1 WHERE order_id = %s", (key,))
        found = outcome(shop, label, 2)
        assert (found["outcome"], found["reopened"]) == ("WRITTEN", 1)
        assert proven(shop) >= label

        shop.client.run(f"ALTER MATERIALIZED TABLE {TABLE} SUSPEND")
        connection.execute("UPDATE orders SET amount = amount + 1 WHERE order_id = %s", (key,))
        shop.kill()
        eventually("it is suspended still", lambda: shop.status()[TABLE].state == "SUSPENDED")
        with pytest.raises(StatementFailed, match=f"headrace resume {TABLE}"):
            shop.client.run(f"ALTER MATERIALIZED TABLE {TABLE} REFRESH NEW")
        shop.client.run(f"ALTER MATERIALIZED TABLE {TABLE} RESUME")
        assert outcome(shop, label, 3)["reopened"] == 2
    shop.wait_running()
    shop.client.run(f"ALTER MATERIALIZED TABLE {TABLE} REFRESH NEW")
    shop.verify(TABLE, READER)

    result = shop.client.run(CREATE.replace(OFFLINE, "")).result
    assert [t["change"] for t in result["tables"] if t["table"] == TABLE] == ["RECOMPUTED"]
    shop.project = load_project(shop.settings.project)
    shop.wait_running()
    with shop.load(seed=62):
        shop.wait_advanced(TABLE, by=3)
    shop.wait_caught_up()
    assert proven(shop) == "" and shop.status()[TABLE].mode == "CONTINUOUS"
    shop.client.run(CREATE)
    shop.wait_running()
    eventually("the batch alone has written it", lambda: proven(shop) != "")
    assert "" < newest(shop) <= proven(shop)
    shop.verify(TABLE, READER)
    for table in (READER, TABLE, MINUTES):
        shop.client.run(f"DROP MATERIALIZED TABLE {table}")
    shop.project = load_project(shop.settings.project)
