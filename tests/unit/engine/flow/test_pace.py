"""How flows and statements share the machine, without Spark."""

from __future__ import annotations

import threading
from datetime import timedelta
from types import SimpleNamespace
from typing import cast

import pytest

from headrace.engine.flow import pace
from headrace.engine.flow.pace import Pace
from headrace.engine.spark.job_group import Statements
from headrace.engine.table.table import Registry, Table


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    now = SimpleNamespace(value=100.0)
    monkeypatch.setattr(pace.time, "monotonic", lambda: now.value)
    return now


def of(*freshness: float) -> Pace:
    tables = [
        SimpleNamespace(name=n, spec=SimpleNamespace(freshness=timedelta(seconds=s)))
        for n, s in enumerate(freshness)
    ]
    registry = SimpleNamespace(upstreams=lambda table: {})
    return Pace(cast("list[Table]", tables), cast("Registry", registry))


@pytest.mark.parametrize(("tightest", "seconds"), [(5, 0.2), (10, 0.4), (30, 0.5), (60, 1.0), (600, 10.0)])
def test_what_may_be_late_comes_early_where_that_costs_little(tightest: float, seconds: float) -> None:
    assert of(tightest, 3600).interval() == pytest.approx(seconds)


def test_where_nobody_declares_anything_the_source_is_not_asked_all_the_time() -> None:
    assert of().interval() == pytest.approx(1.0)


def test_statements_have_a_part_of_what_the_last_micro_batch_took(clock: SimpleNamespace) -> None:
    flow = of(10, 60)
    assert flow.pause() == 0
    flow.ended(97.0)
    assert flow.pause() == pytest.approx(0.75)
    clock.value += 0.45  # the trigger waited already
    assert flow.pause() == pytest.approx(0.3)
    clock.value += 5
    assert flow.pause() == 0


def test_a_slow_micro_batch_does_not_cost_a_table_its_freshness(clock: SimpleNamespace) -> None:
    flow = of(10, 60)
    flow.ended(40.0)
    assert flow.pause() == pytest.approx(1.25)


def test_a_flow_waits_for_the_last_statement_and_no_longer_than_told() -> None:
    statements = Statements()
    statements.wait(60)  # none runs
    statements.count(1)
    statements.wait(0.01)
    statements.count(1)
    gone_on = threading.Event()

    def flow() -> None:
        statements.wait(60)
        gone_on.set()

    thread = threading.Thread(target=flow)
    thread.start()
    statements.count(-1)
    assert not gone_on.wait(0.05)
    statements.count(-1)
    thread.join(10)
    assert gone_on.is_set()
