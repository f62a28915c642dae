"""What helps a flow that misses its freshness: the size of micro-batches, and who streams at all."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.catalog import Catalog
from headrace.catalog.workflows import RefreshWorkflow
from headrace.engine.flow.freshness.actuators import STREAMS_SECONDS, FreshnessActuators
from headrace.engine.ingest.offsets import size, towards
from headrace.planner.policy.relief import (
    LARGEST,
    LATE_SECONDS,
    STEADY_SECONDS,
    BatchSize,
    Thinning,
    loose_tables,
)
from headrace.scheduling.turns import UNMET, Turns
from headrace.spec.model import RefreshMode, TableName

SET = 10_000
A, B, C, D, E = (TableName("dws", name) for name in "abcde")
HOUR = timedelta(hours=1)


def test_full_micro_batches_of_a_late_flow_are_doubled_while_that_brings_something() -> None:
    found = BatchSize(10_000)
    assert not found.took(8_900, 1.0)  # there was no more
    assert found.took(9_100, 1.0) and found.size == 20_000
    assert found.took(20_000, 1.5) and found.size == 40_000
    assert not found.took(40_000, 2.8)  # hardly more a second than before
    assert found.size == 40_000


def test_micro_batches_grow_up_to_where_their_fixed_costs_no_longer_matter() -> None:
    found = BatchSize(150_000)
    assert found.took(150_000, 10.0) and found.size == LARGEST
    assert not found.took(LARGEST, 1.0)
    found = BatchSize(LARGEST + 1)
    assert not found.took(LARGEST + 1, 10.0)


def test_a_flow_on_time_reads_as_much_as_is_set() -> None:
    found = BatchSize(10_000)
    assert not found.on_time()
    assert found.took(10_000, 1.0) and found.took(20_000, 1.0)
    assert found.on_time() and found.size == 10_000 and not found.on_time()
    assert found.took(10_000, 9.0)  # what was before does not count any more


def test_a_flow_is_thinned_when_it_stays_late_and_filled_when_it_stays_on_time() -> None:
    thinning = Thinning()
    assert not thinning.look(True, 0.0) and not thinning.look(True, LATE_SECONDS - 1)
    assert not thinning.look(False, LATE_SECONDS) and not thinning.look(True, LATE_SECONDS + 1)
    assert not thinning.look(True, 2 * LATE_SECONDS) and thinning.look(True, 2 * LATE_SECONDS + 1)
    assert thinning.thinned and not thinning.look(True, 9999.0)
    assert not thinning.look(False, 10_000.0) and not thinning.look(False, 10_000.0 + STEADY_SECONDS - 1)
    assert thinning.look(False, 10_000.0 + STEADY_SECONDS) and not thinning.thinned


def test_what_was_in_vain_takes_twice_as_long_the_next_time() -> None:
    thinning, now = Thinning(), 0.0
    for wait in (STEADY_SECONDS, 2 * STEADY_SECONDS, 4 * STEADY_SECONDS):
        thinning.look(True, now)
        now += LATE_SECONDS
        assert thinning.look(True, now)
        thinning.look(False, now)
        assert not thinning.look(False, now + wait - 1)
        now += wait
        assert thinning.look(False, now)


def test_what_is_loose_leaves_with_all_that_reads_it() -> None:
    readers: dict[TableName, set[TableName]] = {A: {B, C}, B: set(), C: {D}, D: set()}
    assert loose_tables({A: 5.0, B: 50.0, C: 49.0, D: 3600.0}, 5.0, readers) == {B, D}
    assert loose_tables({A: 50.0, B: 50.0, C: 50.0, D: 50.0}, 5.0, readers) == {A, B, C, D}
    assert loose_tables({A: 50.0, B: 50.0, C: 5.0, D: 50.0}, 5.0, readers) == {B, D}
    assert loose_tables({A: 50.0, C: 50.0}, 5.0, readers) == set()  # B and D must stay, and need them
    assert loose_tables({}, 5.0, readers) == set()


def test_a_schedule_is_given_up_where_each_refresh_takes_too_long() -> None:
    now, workflow = [0.0], RefreshWorkflow(A, RefreshMode.INCREMENTAL, 3600.0)
    turns = Turns(clock=lambda: now[0])

    def refresh(seconds: float) -> float | None:
        pace = turns.begin(A, None)
        assert not isinstance(pace, str)
        now[0] += seconds
        turns.end(pace, succeeded=True)
        return turns.unmet(workflow)

    assert [refresh(3000.0) for _ in range(UNMET - 1)] == [None] * (UNMET - 1)
    assert refresh(2900.0) == 2900.0
    assert refresh(100.0) is None  # it was an exception
    assert [refresh(2690.0) for _ in range(UNMET)] == [None] * UNMET


@pytest.fixture
def catalog(tmp_path: Any) -> Catalog:
    return Catalog(f"sqlite:///{tmp_path / 'catalog.sqlite'}")


def table(name: TableName, seconds: float, *upstreams: TableName) -> SimpleNamespace:
    spec = SimpleNamespace(source=None, refresh_mode=None, upstreams=upstreams)
    return SimpleNamespace(name=name, freshness=timedelta(seconds=seconds), spec=spec)


def test_the_measures_of_a_flow_and_their_record(catalog: Catalog) -> None:
    now = [0.0]
    tables = [table(A, 5), table(B, 600, A), table(C, 5, A), table(D, 600), table(E, 600)]
    tables[3].spec.source = object()  # Kafka does not keep its events for ever
    tables[4].spec.refresh_mode = RefreshMode.CONTINUOUS  # that is declared
    step: list[tuple[int, float]] = []

    def newest() -> tuple[int, float] | None:
        return step.pop() if step else None

    flow = cast(
        "Any", SimpleNamespace(name="flow", tables=tables, batch_size=BatchSize(SET), newest_step=newest)
    )
    actuators = FreshnessActuators(catalog.decisions, clock=lambda: now[0])
    actuators.look(flow, {})
    step.append((SET, 2.0))
    actuators.look(flow, {C: 5.0, A: 5.0, B: 600.0})
    assert flow.batch_size.size == 2 * SET
    actuators.look(flow, {A: 5.0})
    assert actuators.measured == {}
    now[0] += LATE_SECONDS
    actuators.look(flow, {A: 5.0})
    assert set(actuators.measured) == {B}
    assert not actuators.measured[B].streams and "`dws.a`, in the same flow" in actuators.measured[B].reason
    flow.tables = [tables[0], tables[2]]
    actuators.look(flow, {})
    assert flow.batch_size.size == SET and set(actuators.measured) == {B}
    now[0] += STEADY_SECONDS
    actuators.look(flow, {})
    assert actuators.measured == {}
    for name in (A, B, C):
        assert [(d.what, d.was, d.became, d.why) for d in catalog.decisions.of(name)] == [
            ("BATCH_SIZE", "20000", "10000", "the flow keeps its freshness again"),
            ("BATCH_SIZE", "10000", "20000", "10000 messages took 2.0 s, and there are more"),
        ]


def test_a_flow_that_has_ended_keeps_nothing_away(catalog: Catalog) -> None:
    now = [0.0]
    flow = cast(
        "Any",
        SimpleNamespace(
            name="f", tables=[table(A, 5), table(B, 600)], batch_size=BatchSize(9), newest_step=lambda: None
        ),
    )
    actuators = FreshnessActuators(catalog.decisions, clock=lambda: now[0])
    actuators.look(flow, {A: 5.0})
    now[0] += LATE_SECONDS
    actuators.look(flow, {A: 5.0})
    assert set(actuators.measured) == {B}
    actuators.forget({"f"})
    assert set(actuators.measured) == {B}
    actuators.forget(set())
    assert actuators.measured == {}


def test_a_table_that_no_schedule_keeps_streams_for_a_day(catalog: Catalog) -> None:
    now = [0.0]
    actuators = FreshnessActuators(catalog.decisions, clock=lambda: now[0])
    actuators.unmet({A: 3333.0, B: 1.0}, {A: HOUR})
    assert set(actuators.measured) == {A}
    assert (actuators.measured[A].streams, actuators.measured[A].freshness) == (True, HOUR)
    now[0] += STREAMS_SECONDS - 1
    actuators.unmet({}, {A: HOUR})
    assert set(actuators.measured) == {A}
    now[0] += 1
    actuators.unmet({}, {A: HOUR})
    assert actuators.measured == {}


def test_a_cut_on_the_way_has_the_same_part_of_every_partition() -> None:
    start, end = {"a": {0: 100}, "b": {0: 0, 1: 7}}, {"a": {0: 1100}, "b": {0: 10, 1: 7}, "new": {0: 990}}
    cut = towards(start, end, 500)
    assert cut == {"a": {0: 350}, "b": {0: 3, 1: 7}, "new": {0: 248}}
    assert size(start, cut) == pytest.approx(500, abs=3)
    assert towards(start, end, 2000) == end
    at, count = start, 0
    while at != end:
        at, count = towards(at, end, 300), count + 1
        assert count < 20
