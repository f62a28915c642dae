"""A SELECT of older versions: each is what the table was then, over compactions, backfills and deletes."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from comparison import tuples
from harness import Harness
from orders_chain import HOURS, LAYERS, nine_orders

from headrace.engine.compaction.compaction import compact
from headrace.engine.read.views import select
from headrace.errors import HeadraceError, TerminalError

CHAIN = {k: LAYERS[k] for k in ("dwd/paid", "dws/by_user")}


def query(warehouse: Harness, text: str) -> list[tuple[Any, ...]]:
    spark = warehouse.sessions.flow
    rows = select(
        spark, warehouse.registry, text, lambda table: warehouse.table("dwd.paid").store.frame(spark)
    )
    return sorted(tuples(rows.toArrow()), key=repr)


@pytest.fixture
def warehouse(harness: Callable[..., Harness]) -> tuple[Harness, dict[int, Any], dict[int, datetime]]:
    """What dwd.paid was at each of its versions, and a time at which that was its newest."""
    made = nine_orders(harness(CHAIN))
    was: dict[int, Any] = {}
    times: dict[int, datetime] = {}

    def remember() -> None:
        version = made.table("dwd.paid").store.version
        was[version] = made.rows("dwd.paid")
        time.sleep(0.01)  # the log's times are milliseconds
        times[version] = datetime.now(UTC)
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
    return made, was, times


def test_each_version_is_what_the_table_was(
    warehouse: tuple[Harness, dict[int, Any], dict[int, datetime]],
) -> None:
    made, was, times = warehouse
    assert len(was) == 3
    for version, rows in was.items():
        assert query(made, f"SELECT * FROM dwd.paid VERSION AS OF {version}") == rows
        at = times[version].isoformat(" ", "milliseconds")
        assert query(made, f"SELECT p.* FROM dwd.paid TIMESTAMP AS OF '{at}' AS p") == rows
    assert query(made, "SELECT * FROM dwd.paid VERSION AS OF 0") == []
    first, newest = min(was), max(was)
    gone = query(
        made,
        f"SELECT a.order_id FROM dwd.paid FOR VERSION AS OF {first} a LEFT ANTI JOIN dwd.paid b ON "
        f"a.order_id = b.order_id WHERE a.order_id IN (SELECT order_id FROM dwd.paid VERSION AS OF {first})",
    )
    assert gone == [(1,)]
    assert query(made, f"SELECT count(*) FROM dwd.paid VERSION AS OF {newest}") == [(len(was[newest]),)]


@pytest.mark.parametrize(
    ("clause", "message"),
    [
        ("VERSION AS OF 99", "`dwd.paid` is at version 3, there is no version 99"),
        ("VERSION AS OF 'x'", "versions are whole numbers"),
        (
            "TIMESTAMP AS OF '2020-01-01 00:00:00'",
            "on record at 2020-01-01 00:00:00 UTC: the first",
        ),
        ("TIMESTAMP AS OF '2026-11-22'", "is a day and no time"),
        ("TIMESTAMP AS OF now()", "give a literal"),
    ],
)
def test_what_is_refused(
    warehouse: tuple[Harness, dict[int, Any], dict[int, datetime]], clause: str, message: str
) -> None:
    with pytest.raises(TerminalError) as refused:
        query(warehouse[0], f"SELECT * FROM dwd.paid {clause}")
    assert message in str(refused.value)


def test_the_quarantine_has_no_versions(
    warehouse: tuple[Harness, dict[int, Any], dict[int, datetime]],
) -> None:
    with pytest.raises(HeadraceError, match="at no version"):
        query(warehouse[0], "SELECT * FROM dwd.`paid$quarantine` VERSION AS OF 1")


def test_what_retention_has_removed_is_named(
    warehouse: tuple[Harness, dict[int, Any], dict[int, datetime]],
) -> None:
    made, was, _ = warehouse
    store = made.table("dwd.paid").store
    compact(made.sessions.batch, made.table("dwd.paid"), run_id="test")
    store.snapshot.retained = store.snapshot.retained.__class__(
        removed=store.version, whole_since=store.snapshot.newest().delta, kept=()
    )
    with pytest.raises(TerminalError, match=r"has no version 1 any more: those before 3 are gone"):
        query(made, "SELECT * FROM dwd.paid VERSION AS OF 1")
    assert query(made, "SELECT * FROM dwd.paid VERSION AS OF 3") == was[3]
