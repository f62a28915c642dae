"""What helps a flow that misses its freshness: the size of micro-batches, and who streams at all."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.catalog import Catalog
from headrace.engine.batch import size, towards
from headrace.engine.reliefs import STREAMS_SECONDS, Reliefs
from headrace.planner.relief import (
    LATE_SECONDS,
    LEAST,
    STEADY_SECONDS,
    BatchSize,
    Thinning,
    loose_tables,
)
from headrace.scheduling.turns import UNKEPT, Turns
from headrace.scheduling.workflow import RefreshWorkflow
from headrace.spec.model import RefreshMode, TableName

MOST = 16 * LEAST
A, B, C, D = (TableName("dws", name) for name in "abcd")
HOUR = timedelta(hours=1)


def test_micro_batches_that_take_longer_than_the_freshness_are_halved() -> None:
    found = BatchSize(MOST)
    assert not found.took(MOST, 9.9, 10.0)
    assert found.took(MOST, 40.0, 10.0) and found.size == MOST // 2
    assert found.took(MOST // 2, 21.0, 10.0) and found.size == MOST // 4
    assert not found.took(MOST // 4, 9.0, 10.0)


def test_of_a_micro_batch_that_was_not_full_half_of_what_it_had() -> None:
    found = BatchSize(MOST)
    assert found.took(4 * LEAST, 11.0, 10.0) and found.size == 2 * LEAST


def test_none_gets_smaller_than_what_is_worth_a_micro_batch() -> None:
    found = BatchSize(MOST)
    for _ in range(10):
        found.took(found.size, 2.0 * found.size / LEAST, 1.0)
    assert found.size == LEAST
    assert not BatchSize(LEAST // 2).took(LEAST // 2, 11.0, 1.0)


def test_a_half_that_costs_throughput_is_taken_back_for_as_long_as_the_flow_is_late() -> None:
    found = BatchSize(MOST)
    assert found.took(MOST, 20.0, 10.0) and found.size == MOST // 2
    assert found.took(MOST // 2, 18.0, 10.0) and found.size == MOST  # most of it are fixed costs
    assert not found.took(MOST, 20.0, 10.0) and not found.took(MOST, 20.0, 10.0)
    assert not found.on_time()
    assert found.took(MOST, 20.0, 10.0) and found.size == MOST // 2


def test_a_small_rest_of_a_backlog_says_nothing_of_throughput() -> None:
    found = BatchSize(MOST)
    assert found.took(MOST, 20.0, 10.0)
    assert not found.took(10, 1.0, 10.0) and found.size == MOST // 2


def test_full_micro_batches_that_are_short_grow_again_up_to_what_is_set() -> None:
    found = BatchSize(MOST)
    found.took(MOST, 80.0, 10.0)
    assert found.size == MOST // 2
    assert not found.took(100, 0.1, 10.0)  # there was no more
    assert found.took(MOST // 2, 2.4, 10.0) and found.size == MOST
    assert not found.took(MOST, 0.1, 10.0)


def test_a_flow_on_time_reads_as_much_as_is_set() -> None:
    found = BatchSize(MOST)
    assert not found.on_time()
    found.took(MOST, 80.0, 10.0)
    assert found.on_time() and found.size == MOST and not found.on_time()


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
        return turns.unkept(workflow)

    assert [refresh(3000.0) for _ in range(UNKEPT - 1)] == [None] * (UNKEPT - 1)
    assert refresh(2900.0) == 2900.0
    assert refresh(100.0) is None  # it was an exception
    assert [refresh(2690.0) for _ in range(UNKEPT)] == [None] * UNKEPT


@pytest.fixture
def catalog(tmp_path: Any) -> Catalog:
    return Catalog(f"sqlite:///{tmp_path / 'catalog.sqlite'}")


def table(name: TableName, seconds: float, *upstreams: TableName) -> SimpleNamespace:
    spec = SimpleNamespace(source=None, refresh_mode=None, upstreams=upstreams)
    return SimpleNamespace(name=name, freshness=timedelta(seconds=seconds), spec=spec)


def test_the_measures_of_a_flow_and_their_record(catalog: Catalog) -> None:
    now = [0.0]
    tables = [table(A, 5), table(B, 600, A), table(C, 5, A)]
    flow = cast("Any", SimpleNamespace(name="flow", tables=tables, batch_size=MOST, took=None))
    reliefs = Reliefs(catalog.decisions, clock=lambda: now[0])
    reliefs.look(flow, {})
    flow.took = MOST, 42.0
    reliefs.look(flow, {A: 5.0, B: 600.0})
    assert flow.batch_size == MOST // 2 and flow.took is None
    reliefs.look(flow, {A: 5.0})
    assert reliefs.measured == {}
    now[0] += LATE_SECONDS
    reliefs.look(flow, {A: 5.0})
    assert set(reliefs.measured) == {B}
    assert not reliefs.measured[B].streams and "`dws.a`, in the same flow" in reliefs.measured[B].reason
    flow.tables = [tables[0], tables[2]]
    reliefs.look(flow, {})
    assert flow.batch_size == MOST and set(reliefs.measured) == {B}
    now[0] += STEADY_SECONDS
    reliefs.look(flow, {})
    assert reliefs.measured == {}
    assert [(d.what, d.was, d.became, d.why) for d in catalog.decisions.of(A)] == [
        ("BATCH_SIZE", str(MOST // 2), str(MOST), "the flow keeps its freshness again"),
        ("BATCH_SIZE", str(MOST), str(MOST // 2), f"{MOST} messages took 42.0 s, declared 5 s"),
    ]


def test_a_flow_that_has_ended_keeps_nothing_away(catalog: Catalog) -> None:
    now = [0.0]
    flow = cast(
        "Any", SimpleNamespace(name="f", tables=[table(A, 5), table(B, 600)], batch_size=9, took=None)
    )
    reliefs = Reliefs(catalog.decisions, clock=lambda: now[0])
    reliefs.look(flow, {A: 5.0})
    now[0] += LATE_SECONDS
    reliefs.look(flow, {A: 5.0})
    assert set(reliefs.measured) == {B}
    reliefs.forget({"f"})
    assert set(reliefs.measured) == {B}
    reliefs.forget(set())
    assert reliefs.measured == {}


def test_a_table_that_no_schedule_keeps_streams_for_a_day(catalog: Catalog) -> None:
    now = [0.0]
    reliefs = Reliefs(catalog.decisions, clock=lambda: now[0])
    reliefs.unkept({A: 3333.0, B: 1.0}, {A: HOUR})
    assert set(reliefs.measured) == {A}
    assert (reliefs.measured[A].streams, reliefs.measured[A].freshness) == (True, HOUR)
    now[0] += STREAMS_SECONDS - 1
    reliefs.unkept({}, {A: HOUR})
    assert set(reliefs.measured) == {A}
    now[0] += 1
    reliefs.unkept({}, {A: HOUR})
    assert reliefs.measured == {}


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
