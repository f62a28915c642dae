"""The reference project's own comparison of today with a week and a year before, and its daily report."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from harness import Captured, Harness
from orders_chain import forget

from headrace.engine.compaction.compaction import compact
from headrace.engine.refresh.decision import history

ROOT = Path(__file__).parents[2]
FILES = ("stg/orders", "dwd/orders", "dws/gmv_hour", "dws/gmv_day", "dws/gmv_compared")
LAYERS = {name: (ROOT / "layers" / f"{name}.sql").read_text() for name in FILES}
ORDERS = Captured(
    (
        ("order_id", "bigint"),
        ("user_id", "bigint"),
        ("status", "text"),
        ("amount", "numeric(12,2)"),
        ("created_at", "timestamp with time zone"),
        ("updated_at", "timestamp with time zone"),
    ),
    ("order_id",),
)
HOUR, WEEK, YEAR = "2026111109", "2026110409", "2025111209"  # three Wednesdays
COMPARED = "dws.gmv_compared"


def order(warehouse: Harness, key: int, hour: str, amount: str, status: str = "paid") -> None:
    at = f"{hour[:4]}-{hour[4:6]}-{hour[6:8]}T{hour[8:]}:30:00Z"
    warehouse.source.put(
        "orders", order_id=key, user_id=key, status=status, amount=amount, created_at=at, updated_at=at
    )


def compared(warehouse: Harness) -> dict[str, tuple[Any, ...]]:
    """By hour: its amount, a week's and a year's before, in whole units."""
    return {
        hour: tuple(None if v is None else int(v) for v in values)
        for hour, *values in warehouse.rows(COMPARED)
    }


def strategy(warehouse: Harness, name: str) -> str:
    return history(warehouse.table(name))[-1].chosen


@pytest.fixture
def warehouse(harness: Callable[..., Harness]) -> Harness:
    """Three hours of orders; the year before is not in `dws.gmv_hour`, so history has to be backfilled."""
    made = harness(LAYERS, sources={"orders": ORDERS})
    for key, (hour, amount) in enumerate([(HOUR, "1.00"), (WEEK, "20.00"), (YEAR, "300.00")]):
        order(made, key, hour, amount)
    made.advance_one("dwd.orders", made.feed())
    made.advance_one("dws.gmv_hour", {})
    compact(made.sessions.batch, made.table("dws.gmv_hour"), run_id="test")
    forget(made, "dws.gmv_hour", "logdate", YEAR.__eq__)
    made.advance()
    assert compared(made) == {HOUR: (1, 20, None), WEEK: (20, None, None)}
    return made


def test_a_stream_moves_today_and_a_backfill_its_history(warehouse: Harness) -> None:
    order(warehouse, 7, HOUR, "4.00")
    warehouse.step()
    assert compared(warehouse)[HOUR] == (5, 20, None)

    order(warehouse, 1, WEEK, "50.00")  # late news of last week: today's row and that hour's own
    warehouse.step()
    assert compared(warehouse) == {HOUR: (5, 50, None), WEEK: (50, None, None)}
    assert strategy(warehouse, COMPARED) == "AFFECTED_PARTITIONS"

    assert warehouse.backfill("dws.gmv_hour", YEAR, YEAR).inserted == 1
    version = warehouse.table(COMPARED).store.version
    warehouse.advance()
    assert compared(warehouse) == {HOUR: (5, 50, 300), WEEK: (50, None, None), YEAR: (300, None, None)}
    store = warehouse.table(COMPARED).store
    emitted = store.changelog.read(version, store.version).select(["_kind", "logdate"]).to_pylist()
    assert sorted((r["_kind"], r["logdate"]) for r in emitted) == [("+I", YEAR), ("+U", HOUR), ("-U", HOUR)]
    warehouse.assert_parity()


def test_the_daily_report_takes_a_days_changes_at_once(warehouse: Harness) -> None:
    days = "dws.gmv_day"
    assert [row[0] for row in warehouse.rows(days)] == [YEAR[:8], WEEK[:8], HOUR[:8]]
    before = warehouse.table(days).store.version
    for key, hour in ((3, "2026111100"), (4, "2026111123"), (5, "2026111200")):
        order(warehouse, key, hour, "2.50")
        warehouse.advance_one("dwd.orders", warehouse.feed())
    order(warehouse, 0, HOUR, "1.00", status="cancelled")
    warehouse.source.delete("orders", 1)
    warehouse.step()
    assert warehouse.rows(days) == [
        ("20251112", 1, Decimal("300.00")),
        ("20261111", 3, Decimal("5.00")),
        ("20261112", 1, Decimal("2.50")),
    ]
    assert warehouse.table(days).store.version == before + 1
    assert strategy(warehouse, days) == "WEIGHTED"
    assert warehouse.verify(days).equal
