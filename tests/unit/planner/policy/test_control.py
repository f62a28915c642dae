"""The closed loop of freshness: schedules by what refreshes took, and who misses what it declares."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.catalog import Catalog
from headrace.catalog.workflows import RefreshWorkflow
from headrace.engine.flow.flow import Flow
from headrace.engine.flow.freshness.monitor import GIVES_WAY, Watch
from headrace.planner.policy.control import CALM_LOOKS, LATE_LOOKS, FreshnessState, refresh_interval
from headrace.planner.policy.relief import BatchSize
from headrace.scheduling.turns import Turns
from headrace.scheduling.workflow import levels
from headrace.spec.model import RefreshMode, TableName

HOUR = 3600.0


@pytest.mark.parametrize(
    ("took", "levels", "seconds"),
    [
        ([], 1, HOUR / 2),
        ([], 2, HOUR / 4),
        ([10.0], 1, 0.9 * HOUR - 12),
        ([10.0, 300.0, 20.0], 1, 0.9 * HOUR - 360),
        ([10.0], 3, 0.3 * HOUR - 12),
        ([HOUR], 1, 0.0),  # it cannot be kept: one refresh follows the other
    ],
)
def test_an_interval_leaves_time_for_the_refresh(took: list[float], levels: int, seconds: float) -> None:
    assert refresh_interval(HOUR, took, levels) == pytest.approx(seconds)


@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize("took", [1.0, 60.0, 500.0])
def test_what_changes_at_any_time_shows_within_the_freshness(took: float, levels: int) -> None:
    """The worst moment: just after a refresh began, of each table on the way."""
    interval = refresh_interval(HOUR, [took], levels)
    assert levels * (interval + took) <= HOUR


class World:
    """`a` ← `b` are refreshed on a schedule."""

    def __init__(self) -> None:
        self.now = 1000.0
        a, b = (TableName("dws", n) for n in "ab")
        of = levels({a: {TableName("dws", "s")}, b: {a}})
        mode = RefreshMode.INCREMENTAL
        self.a, self.b = (RefreshWorkflow(name, mode, HOUR, of[name]) for name in (a, b))
        self.turns = Turns(clock=lambda: self.now)

    def due(self, workflow: RefreshWorkflow) -> bool:
        return self.turns.due_in(workflow) <= 0

    def refresh(self, workflow: RefreshWorkflow, seconds: float, *, fails: bool = False) -> None:
        pace = self.turns.begin(workflow.table, None)
        assert not isinstance(pace, str)
        self.now += seconds
        self.turns.end(pace, succeeded=not fails)


def test_levels_are_tables_on_the_longest_way() -> None:
    s, a, b, c = (TableName("dws", n) for n in "sabc")
    assert levels({c: {a, b}, a: {s}, b: {a}}) == {a: 1, b: 2, c: 3}


def test_a_schedule_learns_what_refreshes_take() -> None:
    world = World()
    assert world.due(world.a) and world.due(world.b)
    world.refresh(world.a, 100.0)
    world.refresh(world.b, 10.0)
    assert not world.due(world.a) and not world.due(world.b)
    world.now = 1000.0 + 0.9 * HOUR - 120.0 - 0.1
    assert not world.due(world.a)
    assert world.due(world.b)  # it has half of the hour: `a` uses up the other
    world.now += 0.1
    assert world.due(world.a)


def test_a_turn_is_taken_once() -> None:
    world = World()
    turn, underway, _ = world.turns.seen(world.a.table)
    pace = world.turns.begin(world.a.table, turn)
    assert not underway and not isinstance(pace, str)
    assert world.turns.begin(world.a.table, turn) == f"turn {turn} is under way"
    assert world.turns.begin(world.a.table, None) == f"turn {turn} is under way"
    world.turns.end(pace, succeeded=True)
    assert world.turns.begin(world.a.table, turn) == f"turn {turn} is over"


def test_a_turn_is_due_early_where_it_takes_time_to_begin() -> None:
    world = World()
    world.turns = Turns(notice=15.0, clock=lambda: world.now)
    world.refresh(world.a, 100.0)
    world.now = 1000.0 + 0.9 * HOUR - 120.0 - 15.1
    assert not world.due(world.a)
    world.now += 0.1
    assert world.due(world.a)


def test_a_failed_refresh_teaches_nothing() -> None:
    world = World()
    world.refresh(world.a, 1000.0, fails=True)
    assert not world.due(world.a)
    world.now += HOUR / 2 - 1000.0
    assert world.due(world.a)
    world.refresh(world.a, 10.0)
    world.now += 0.9 * HOUR - 12.0 - 10.1
    assert not world.due(world.a)
    world.now += 0.1
    world.refresh(world.a, 0.0, fails=True)  # a person must act; once in a while it is looked whether one did
    assert not world.due(world.a)
    world.now += 0.9 * HOUR - 12.0
    assert world.due(world.a)


def looks(keeping: FreshnessState, measured: float | None, count: int) -> list[int]:
    """The looks after which it turned, from 1."""
    return [n for n in range(1, count + 1) if keeping.look(10.0, measured)]


def test_who_is_late_turns_with_hysteresis() -> None:
    keeping = FreshnessState()
    assert looks(keeping, 9.9, 100) == looks(keeping, None, 100) == looks(keeping, 11.0, LATE_LOOKS - 1) == []
    assert looks(keeping, 9.9, 1) == [] and looks(keeping, 11.0, LATE_LOOKS) == [LATE_LOOKS]
    assert keeping.late
    assert looks(keeping, 9.0, 1000) == []  # within the freshness, but not by enough
    assert looks(keeping, 6.9, CALM_LOOKS - 1) == [] and looks(keeping, 8.0, 1) == []
    assert looks(keeping, 6.9, CALM_LOOKS) == [CALM_LOOKS] and not keeping.late
    assert looks(keeping, 99.0, LATE_LOOKS) == [LATE_LOOKS]
    assert looks(keeping, None, CALM_LOOKS) == [CALM_LOOKS]


def test_other_work_gives_way_to_a_late_flow(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    name, measured = TableName("dws", "hours"), SimpleNamespace(value=12.0)
    table = SimpleNamespace(
        name=name,
        freshness=timedelta(seconds=10),
        run=SimpleNamespace(measured=lambda share, window: measured.value),
    )
    late, other = (
        cast(
            "Any",
            SimpleNamespace(
                name=n,
                tables=[],
                active=set(),
                loading=set(),
                batch_size=BatchSize(9),
                newest_step=lambda: None,
            ),
        )
        for n in ("late", "other")
    )
    late.tables, late.active, late.loading = [table], {name}, {"a topic"}
    watch, flows = Watch(catalog.decisions), cast("list[Flow]", [late, other])

    hurried: dict[str, bool] = {}
    for flow in (late, other):
        flow.hurry = partial(hurried.__setitem__, flow.name)

    def look(count: int) -> tuple[bool, bool, float, list[str]]:
        for _ in range(count):
            watch.look(flows)
        return hurried["late"], hurried["other"], watch.giving_way, watch.warnings(name)

    assert look(LATE_LOOKS) == (False, False, 1.0, [])  # it is read for the first time
    late.loading.clear()
    *found, told = look(LATE_LOOKS)
    assert found == [True, False, GIVES_WAY]
    assert told == [
        "misses its freshness: p90 12.0 s within the last minute, declared 10 s; other work gives way"
    ]
    measured.value = 1.0
    assert look(CALM_LOOKS) == (False, False, 1.0, [])
    assert [(d.what, d.was, d.became) for d in catalog.decisions.of(name)] == [
        ("MEASURED", "missed", "kept"),
        ("MEASURED", "kept", "missed"),
    ]
    measured.value = 12.0
    look(LATE_LOOKS)
    late.active.clear()  # suspended: nobody waits for it
    forgotten: list[set[str]] = []
    monkeypatch.setattr(watch.actuators, "forget", forgotten.append)
    assert look(1) == (False, False, 1.0, [])
    assert forgotten == [{"late", "other"}]
