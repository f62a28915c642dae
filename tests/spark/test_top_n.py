"""TOP_N: the first rows of a query stay the first rows, whatever changes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from harness import Harness, layer

from headrace.engine.refresh.strategies.executors import EXECUTORS, Executor
from headrace.engine.refresh.work import Work
from headrace.errors import SpecError
from headrace.planner.strategies import Full

TOP = (
    "SELECT user_id, sum(amount) AS spent, count(*) AS orders FROM stg.orders GROUP BY user_id "
    "ORDER BY spent DESC NULLS LAST, user_id LIMIT 3"
)
LAYERS = {"dws/best": layer("dws.best", "user_id", TOP, partitioned=False)}
HOUR = "2026112010"


@pytest.fixture
def full_runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the tables whose whole query ran, in order."""
    ran: list[str] = []
    whole = EXECUTORS[Full].on_spark

    def counted(work: Work, *rest: Any) -> Any:
        ran.append(str(work.table.name))
        return whole(work, *rest)

    monkeypatch.setitem(EXECUTORS, Full, Executor(counted))
    return ran


@pytest.fixture
def shop(harness: Callable[..., Harness]) -> Harness:
    shop = harness(LAYERS)
    assert shop.table("dws.best").plan.strategy.name == "TOP_N"
    for user in range(1, 7):
        shop.source.put("orders", order_id=user, user_id=user, amount=f"{10 * user}.00", hour=HOUR)
    shop.step()
    assert users(shop) == {6, 5, 4}
    return shop


def users(shop: Harness) -> set[int]:
    return {row[0] for row in shop.rows("dws.best")}


def test_who_rises_pushes_the_last_one_out(shop: Harness, full_runs: list[str]) -> None:
    shop.source.put("orders", order_id=7, user_id=1, amount="45.00", hour=HOUR)
    shop.step()
    assert users(shop) == {6, 1, 5}
    shop.assert_parity()
    assert not full_runs


def test_who_falls_lets_a_row_up_that_the_table_did_not_hold(shop: Harness, full_runs: list[str]) -> None:
    shop.source.put("orders", order_id=6, user_id=6, amount="1.00", hour=HOUR)
    shop.step()
    assert users(shop) == {5, 4, 3}
    shop.assert_parity()
    assert full_runs == ["dws.best"]


def test_a_row_that_stays_above_the_last_one_needs_no_full_run(shop: Harness, full_runs: list[str]) -> None:
    shop.source.put("orders", order_id=6, user_id=6, amount="41.00", hour=HOUR)
    shop.step()
    assert users(shop) == {6, 5, 4}
    shop.assert_parity()
    assert not full_runs


def test_fewer_rows_than_the_limit(shop: Harness, full_runs: list[str]) -> None:
    for order in range(1, 6):
        shop.source.delete("orders", order)
    shop.step()
    assert users(shop) == {6}
    shop.source.put("orders", order_id=9, user_id=9, amount=None, hour=HOUR)
    full_runs.clear()
    shop.step()
    assert users(shop) == {6, 9}
    shop.assert_parity()
    assert not full_runs


@pytest.mark.long
def test_random_changes(shop: Harness) -> None:
    rng = random.Random(5)
    for _ in range(12):
        for _ in range(rng.randint(1, 4)):
            order = rng.randint(1, 12)
            if order in shop.source.rows["orders"] and rng.random() < 0.3:
                shop.source.delete("orders", order)
            else:
                amount = rng.choice([None, f"{rng.randint(0, 6)}0.00"])
                shop.source.put("orders", order_id=order, user_id=rng.randint(1, 7), amount=amount, hour=HOUR)
        shop.step()
        shop.assert_parity()


def test_an_order_by_what_the_table_does_not_hold_runs_in_full(harness: Callable[..., Harness]) -> None:
    query = TOP.replace("ORDER BY spent", "ORDER BY sum(amount)")
    plan = (
        harness({"dws/best": layer("dws.best", "user_id", query, partitioned=False)}).table("dws.best").plan
    )
    assert isinstance(plan.strategy, Full)
    assert "is no column of the table" in dict(plan.refused)["TOP_N"]


def test_an_order_with_ties_is_refused(harness: Callable[..., Harness]) -> None:
    query = TOP.replace(", user_id LIMIT", " LIMIT")
    with pytest.raises(SpecError, match="LIMIT"):
        harness({"dws/best": layer("dws.best", "user_id", query, partitioned=False)})
