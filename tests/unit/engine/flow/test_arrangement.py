"""Who streams in which flow after a declaration has changed, without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from planner_support import write_table

from headrace.engine.flow import arrangement as module
from headrace.engine.flow.arrangement import Arrangement
from headrace.engine.flow.flow import Flow
from headrace.engine.table.table import Registry, Table
from headrace.planner.policy.flows import FlowPlan
from headrace.planner.policy.modes import Measured
from headrace.spec import Project
from headrace.spec.calendar import read_calendar
from headrace.spec.model import RefreshMode, RefreshPolicy, TableName, TableSpec
from headrace.spec.partitions.completion import Completion, RunMode

DAY, MINUTES, SECONDS = timedelta(days=1), timedelta(minutes=10), timedelta(seconds=10)
NOTHING: Mapping[TableName, Measured] = {}
QUERIES = {
    "stg.a": ("SELECT * FROM shop.public.a", ""),
    "stg.x": ("SELECT * FROM shop.public.x", ""),
    "dwd.b": ("SELECT id, logdate FROM stg.a", "id"),
    "dwd.y": ("SELECT id, logdate FROM stg.x", "id"),
    "dws.both": ("SELECT b.id, b.logdate FROM dwd.b b JOIN dwd.y y ON b.id = y.id", "id"),
}


@dataclass
class Made:
    """What a plan was made to."""

    plan: FlowPlan

    @property
    def sources(self) -> tuple[object, ...]:
        return self.plan.sources


class World:
    def __init__(self, directory: Path) -> None:
        self.specs = {
            TableName.parse(name): write_table(directory, query, key=key, name=name)
            for name, (query, key) in QUERIES.items()
        }
        self.registry = Registry(
            cast("dict[TableName, Table]", {n: _table(s) for n, s in self.specs.items()})
        )
        project = Project(directory, self.specs, {})
        self.arrangement = Arrangement(
            project, self.registry, timedelta(minutes=30), lambda plan: cast("Flow", Made(plan))
        )

    def declare(
        self, table: str, measured: Mapping[TableName, Measured] = NOTHING, **declared: Any
    ) -> set[str]:
        """Returns the tables with another mode."""
        name = TableName.parse(table)
        self.specs[name] = replace(self.specs[name], **declared)
        project = replace(self.arrangement.project, tables=dict(self.specs))
        return {str(t.name) for t in self.arrangement.declare(project, measured)}

    def flows(self) -> set[str]:
        return {" ".join(f"{t}" for t in plan.tables) for plan in self.arrangement.plans()}


def _table(spec: TableSpec) -> SimpleNamespace:
    mode = RefreshMode.CONTINUOUS
    return SimpleNamespace(name=spec.name, spec=spec, mode=mode, source=spec.source and object())


class Clock:
    """What the arrangement takes for the time."""

    now_ = datetime(2026, 11, 10, 12, tzinfo=UTC)

    @classmethod
    def now(cls, _zone: object) -> datetime:
        return cls.now_


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_leaf_leaves_its_flow_and_comes_back(world: World) -> None:
    arrangement = world.arrangement
    [flow] = arrangement.flows
    assert world.declare("dws.both", freshness=DAY) == {"dws.both"}
    table = world.registry[TableName("dws", "both")]
    assert (table.mode, table.freshness) == (RefreshMode.INCREMENTAL, DAY)
    assert world.flows() == {"stg.a dwd.b", "stg.x dwd.y"}
    assert arrangement.end(arrangement.plans()) == [flow]
    assert [arrangement.begin(plan)[1] for plan in arrangement.plans()] == [True, True]
    assert arrangement.schedule() == [table] and arrangement.scheduled == [table]
    assert arrangement.schedule() == arrangement.unschedule() == []
    one, other = arrangement.flows

    assert world.declare("dws.both", freshness=SECONDS) == {"dws.both"}
    assert arrangement.unschedule() == [table] and arrangement.scheduled == []
    [plan] = arrangement.plans()
    assert arrangement.end([plan]) == [one, other]
    made, new = arrangement.begin(plan)
    assert new and arrangement.flows == [made] and arrangement.begin(plan) == (made, False)


def test_what_reads_only_what_left_leaves_too(world: World) -> None:
    world.declare("dws.both", freshness=DAY)
    world.arrangement.schedule()
    assert world.declare("dws.both", freshness=SECONDS) == {"dws.both"}
    assert world.declare("dwd.b", freshness=DAY) == {"dwd.b"}  # `dws.both` has another upstream that streams
    assert world.declare("dwd.y", freshness=DAY) == {"dwd.y", "dws.both"}
    assert world.flows() == {"stg.a", "stg.x"}
    assert world.declare("dwd.y", refresh_mode=RefreshMode.CONTINUOUS) == {"dwd.y", "dws.both"}
    assert world.flows() == {"stg.a", "stg.x dwd.y dws.both"}


def test_what_the_batch_alone_writes_neither_streams_nor_is_on_the_schedule(world: World) -> None:
    arrangement, batch = world.arrangement, Completion(run_mode=RunMode.OFFLINE)
    assert world.declare("dwd.b", completion=batch) == {"dwd.b"}
    assert arrangement.schedule() == []
    table = world.registry[TableName("dwd", "b")]
    assert (table.mode, table.mode_reason) == (
        RefreshMode.INCREMENTAL,
        "run mode offline: the batch writes partitions when they are complete",
    )
    assert world.flows() == {"stg.a", "stg.x dwd.y dws.both"}
    world.declare("dwd.b", completion=Completion(), freshness=DAY)
    assert arrangement.schedule() == [table]
    world.declare("dwd.b", completion=batch)
    assert arrangement.unschedule() == [] and arrangement.scheduled == []
    world.declare("dwd.b", completion=Completion(), freshness=SECONDS)
    assert world.flows() == {"stg.a stg.x dwd.b dwd.y dws.both"}


def test_a_freshness_alone_moves_nothing(world: World) -> None:
    flows = list(world.arrangement.flows)
    assert world.declare("dws.both", freshness=timedelta(seconds=5)) == set()
    assert world.arrangement.end(world.arrangement.plans()) == []
    assert [world.arrangement.begin(p) for p in world.arrangement.plans()] == [(flows[0], False)]
    assert world.registry[TableName("dws", "both")].freshness == timedelta(seconds=5)


def test_a_stg_table_streams_whatever_it_declares(world: World) -> None:
    world.declare("stg.a", freshness=DAY)
    assert world.arrangement.schedule() == []
    assert world.flows() == {"stg.a stg.x dwd.b dwd.y dws.both"}


def test_a_calendar_makes_a_table_stream_for_a_day(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "datetime", Clock)
    assert world.declare("dws.both", freshness=DAY, calendar=read_calendar("11-11 = 10 SECOND")) == {
        "dws.both"
    }
    both, arrangement = world.registry[TableName("dws", "both")], world.arrangement
    assert (both.mode, both.freshness, arrangement.turned(NOTHING)) == (RefreshMode.INCREMENTAL, DAY, False)
    monkeypatch.setattr(Clock, "now_", datetime(2026, 11, 11, tzinfo=UTC))
    assert arrangement.turned(NOTHING)
    assert arrangement.declare(arrangement.project, NOTHING) == [both]
    assert (both.mode, both.freshness) == (RefreshMode.CONTINUOUS, SECONDS)
    assert both.spec.freshness_origin == "its calendar: 11-11 = 10 SECOND"
    assert not arrangement.turned(NOTHING)
    assert arrangement.project.tables[both.name].freshness == DAY  # what is declared stays
    monkeypatch.setattr(Clock, "now_", datetime(2026, 11, 12, tzinfo=UTC))
    assert arrangement.turned(NOTHING)
    assert arrangement.declare(arrangement.project, NOTHING) == [both]
    assert (both.mode, both.freshness) == (RefreshMode.INCREMENTAL, DAY)


def test_a_measurement_moves_a_table_for_as_long_as_its_freshness_is_the_same(world: World) -> None:
    name, other = TableName("dws", "both"), TableName("dwd", "b")
    late = {name: Measured(MINUTES, streams=False, reason="`dwd.y`, in the same flow, misses its freshness")}
    assert world.declare("dws.both", freshness=MINUTES) == set()
    assert world.arrangement.turned(late) and not world.arrangement.turned(NOTHING)
    assert world.declare("dws.both", late) == {"dws.both"}
    both = world.registry[name]
    assert both.mode is RefreshMode.INCREMENTAL
    assert both.mode_reason == (
        "freshness 600 s is within 1800 s, but `dwd.y`, in the same flow, misses its freshness"
    )
    assert world.flows() == {"stg.a dwd.b", "stg.x dwd.y"} and not world.arrangement.turned(late)
    assert world.declare("dws.both", late, freshness=SECONDS) == {"dws.both"}  # that says something else
    assert world.declare("dws.both", late, freshness=MINUTES) == {"dws.both"}
    assert world.declare("dws.both", late, refresh_mode=RefreshMode.CONTINUOUS) == {
        "dws.both"
    }  # and so does that
    slow = {
        other: Measured(DAY, streams=True, reason="each of its scheduled refreshes takes 80000 s or more")
    }
    assert world.declare("dwd.b", freshness=DAY) == {"dwd.b"}
    assert world.declare("dwd.b", slow) == {"dwd.b"}
    assert world.registry[other].mode is RefreshMode.CONTINUOUS


def test_what_is_measured_of_a_full_table_leaves_it_full(world: World) -> None:
    late = {TableName("dws", "both"): Measured(MINUTES, streams=False, reason="late")}
    world.declare("dws.both", late, freshness=MINUTES, refresh_policy=RefreshPolicy.FULL)
    assert world.registry[TableName("dws", "both")].mode is RefreshMode.FULL
