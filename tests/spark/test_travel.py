"""A SELECT of older versions: each is what the table was then, over compactions, backfills and deletes."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest
from comparison import tuples
from harness import Harness
from orders_chain import HOURS, LAYERS, nine_orders

from headrace.engine.compaction.compaction import compact
from headrace.engine.read.views import select
from headrace.errors import TerminalError
from headrace.store.delta.retained import Retained

CHAIN = {"dwd/paid": LAYERS["dwd/paid"]}


def query(warehouse: Harness, text: str) -> list[tuple[Any, ...]]:
    spark = warehouse.sessions.flow
    rows = select(spark, warehouse.registry, text, lambda table: table.store.frame(spark), pytest.fail)
    return sorted(tuples(rows.toArrow()), key=repr)


def test_a_table_function_is_no_table(warehouse: tuple[Harness, dict[int, Then]]) -> None:
    made, _ = warehouse
    assert query(made, "SELECT r.id FROM range(3) r JOIN dwd.paid p ON r.id < 0") == []
    assert query(made, "SELECT id FROM range(2)") == [(0,), (1,)]


class Then(NamedTuple):
    """What dwd.paid was at a version, and a time at which that was its newest."""

    rows: list[tuple[Any, ...]]
    at: datetime


@pytest.fixture
def warehouse(harness: Callable[..., Harness]) -> tuple[Harness, dict[int, Then]]:
    """dwd.paid at three versions, a compaction between the second and the third."""
    made = nine_orders(harness(CHAIN))
    was: dict[int, Then] = {}

    def remember() -> None:
        time.sleep(0.01)  # the log's times are milliseconds
        was[made.table("dwd.paid").store.version] = Then(made.rows("dwd.paid"), datetime.now(UTC))
        time.sleep(0.01)

    remember()
    made.source.delete("orders", 1)
    made.step()
    remember()
    compact(made.sessions.batch, made.table("dwd.paid"), run_id="test")
    made.source.put("orders", order_id=2, user_id=1, amount="20.00", hour=HOURS[0])
    made.source.put("orders", order_id=30, user_id=1, amount="3.00", hour=HOURS[0])
    made.step()
    remember()
    return made, was


REFUSED = {
    "dwd.paid VERSION AS OF 99": "`dwd.paid` is at version 3, there is no version 99",
    "dwd.paid VERSION AS OF 'x'": "versions are whole numbers",
    "dwd.paid TIMESTAMP AS OF '2020-01-01 00:00:00'": "on record at 2020-01-01 00:00:00 UTC: the first is of",
    "dwd.paid TIMESTAMP AS OF '2026-11-22'": "is a day and no time",
    "dwd.paid TIMESTAMP AS OF now()": "give a literal",
    "dwd.`paid$quarantine` VERSION AS OF 1": "at no version",
}


def test_each_version_is_what_the_table_was(warehouse: tuple[Harness, dict[int, Then]]) -> None:
    made, was = warehouse
    assert sorted(was) == [1, 2, 3]
    for version, then in was.items():
        assert query(made, f"SELECT * FROM dwd.paid VERSION AS OF {version}") == then.rows
        at = then.at.isoformat(" ", "milliseconds")
        assert query(made, f"SELECT p.* FROM dwd.paid TIMESTAMP AS OF '{at}' AS p") == then.rows
    assert query(made, "SELECT * FROM dwd.paid VERSION AS OF 0") == []
    gone = query(
        made,
        "SELECT a.order_id FROM dwd.paid FOR VERSION AS OF 1 a LEFT ANTI JOIN dwd.paid b ON "
        "a.order_id = b.order_id WHERE a.order_id IN (SELECT order_id FROM dwd.paid VERSION AS OF 1)",
    )
    assert gone == [(1,)]
    for clause, message in REFUSED.items():
        with pytest.raises(TerminalError) as refused:
            query(made, f"SELECT * FROM {clause}")
        assert message in str(refused.value)

    compact(made.sessions.batch, made.table("dwd.paid"), run_id="test")
    snapshot = made.table("dwd.paid").store.snapshot
    snapshot.retained = Retained(removed=3, whole_since=snapshot.newest().delta)
    with pytest.raises(TerminalError, match=r"has no version 1 any more: those before 3 are gone"):
        query(made, "SELECT * FROM dwd.paid VERSION AS OF 1")
    assert query(made, "SELECT * FROM dwd.paid VERSION AS OF 3") == was[3].rows
