"""What every workflow scheduler does: one test body for the warehouse's own and for Dagster.

Of Dagster all is real: the generated sensor is evaluated and its run requests are runs of the generated
assets, over HTTP against a gateway whose warehouse has the scheduler.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import dagster as dg
import definitions_support
import pytest
from gateway_support import FakeWarehouse, serve

from headrace.catalog import Catalog
from headrace.catalog.workflows import RefreshWorkflow
from headrace.engine.supervisor.schedule import Refreshes
from headrace.errors import TerminalError, TransientError, UnknownName
from headrace.orchestration import workflows
from headrace.orchestration.build import build_definitions
from headrace.orchestration.gateway import GatewayResource
from headrace.orchestration.workflows import JOB, LOST_SECONDS, OP, SENSOR, TURN_TAG
from headrace.progress import Progress
from headrace.results import RefreshResult, WorkflowStatus
from headrace.scheduling.schedulers import (
    NOTICE_SECONDS,
    OVERDUE_SECONDS,
    DagsterScheduler,
    WarehouseScheduler,
)
from headrace.scheduling.turns import FIRST_RETRY, Turns
from headrace.scheduling.workflow import WorkflowScheduler, agree
from headrace.spec.model import RefreshMode, TableName

HOUR = 3600.0
DAY = TableName("dws", "user_day")
TOTAL = TableName("dws", "user_total")
INCREMENTAL = RefreshMode.INCREMENTAL


class World:
    """A scheduler over a catalog, with a clock and refreshes that a test controls."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.now = 1000.0
        self.refreshed: list[TableName] = []
        self.errors: dict[TableName, Exception] = {}
        self.paused: set[TableName] = set()
        self.reads: dict[TableName, set[TableName]] = {}
        self.takes: dict[TableName, float] = {}
        self.start()

    def start(self) -> None:
        """The scheduler of a new process."""
        self.scheduler: WorkflowScheduler = WarehouseScheduler(
            self.catalog.workflows,
            self.refresh,
            self.paused.__contains__,
            Turns(clock=lambda: self.now),
            lambda table: self.reads.get(table, ()),
        )

    def refresh(self, table: TableName, _progress: Progress) -> None:
        self.refreshed.append(table)
        self.now += self.takes.get(table, 0.0)
        if table in self.errors:
            raise self.errors[table]

    def tick(self) -> list[TableName]:
        """Returns the tables of which a refresh has begun."""
        before = len(self.refreshed)
        self.scheduler.tick()
        return self.refreshed[before:]

    def after(self, seconds: float) -> list[TableName]:
        self.now += seconds
        return self.tick()

    def state(self, table: TableName) -> WorkflowStatus:
        return next(status for status in self.scheduler.status() if status.table == str(table))


class Served(FakeWarehouse):
    """A warehouse with nothing but a scheduler."""

    world: DagsterWorld

    def workflows(self) -> list[WorkflowStatus]:
        return self.world.scheduler.status()

    def refresh_new(self, table: str, turn: str | None, *, progress: Progress) -> RefreshResult:
        self.world.turns.append(turn)
        skipped = self.world.scheduler.run(TableName.parse(table), turn, progress)
        return super().refresh_new(table, turn, progress=progress).model_copy(update={"skipped": skipped})


class DagsterWorld(World):
    """As the daemon does: the sensor is evaluated, and each of its run keys is run once."""

    def __init__(self, catalog: Catalog, project: Path, served: Served) -> None:
        served.world = self
        self.project = project
        self.turns: list[str | None] = []
        self.instance = dg.DagsterInstance.ephemeral()
        self.defs = build_definitions(project)
        self.results: list[dg.ExecuteInProcessResult] = []
        super().__init__(catalog)

    def start(self) -> None:
        self.scheduler = DagsterScheduler(
            self.catalog.workflows,
            self.refresh,
            self.paused.__contains__,
            Turns(notice=NOTICE_SECONDS, clock=lambda: self.now),
        )

    def evaluate(self) -> Any:
        repository = self.defs.get_repository_def()
        resources = {"gateway": GatewayResource(project=str(self.project))}
        with dg.build_sensor_context(
            self.instance, repository_def=repository, sensor_name=SENSOR, resources=resources
        ) as context:
            return repository.get_sensor_def(SENSOR).evaluate_tick(context)

    def tick(self) -> list[TableName]:
        before = len(self.refreshed)
        self.scheduler.tick()
        for request in self.evaluate().run_requests or []:
            self.run(request)
        return self.refreshed[before:]

    def run(self, request: dg.RunRequest) -> dg.ExecuteInProcessResult | None:
        key = {"dagster/run_key": request.run_key}
        if self.instance.get_runs(dg.RunsFilter(tags=key)):
            return None
        job = self.defs.get_repository_def().get_job(JOB)
        result = job.execute_in_process(
            run_config=request.run_config,
            instance=self.instance,
            tags={**request.tags, **key},
            raise_on_error=False,
        )
        self.results.append(result)
        return result


@pytest.fixture
def dagster(catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DagsterWorld]:
    served = Served()
    monkeypatch.setenv("HEADRACE_SCHEDULER", "dagster")
    with serve(tmp_path / "project", warehouse=served, write=definitions_support.write_project) as gateway:
        monkeypatch.setenv("HEADRACE_GATEWAY_PORT", str(gateway.settings.gateway_port))
        yield DagsterWorld(catalog, gateway.settings.project, served)


@pytest.fixture(params=["warehouse", "dagster"])
def world(request: pytest.FixtureRequest, catalog: Catalog) -> World:
    return World(catalog) if request.param == "warehouse" else request.getfixturevalue("dagster")


def workflow(table: TableName = TOTAL, freshness: float = HOUR, **declared: Any) -> RefreshWorkflow:
    return RefreshWorkflow(table, INCREMENTAL, freshness, **declared)


def test_a_workflow_fires_once_within_its_freshness(world: World) -> None:
    world.scheduler.create(workflow())
    assert world.tick() == [TOTAL]
    assert world.tick() == [] and world.after(0.8 * HOUR) == []
    assert world.after(0.1 * HOUR) == [TOTAL]
    assert world.tick() == []


def test_the_same_again_changes_nothing(world: World) -> None:
    world.scheduler.create(workflow())
    world.scheduler.create(workflow())
    assert world.tick() == [TOTAL] and world.tick() == []
    world.scheduler.create(workflow())
    world.scheduler.modify(workflow())
    world.scheduler.resume(TOTAL)
    assert world.tick() == []
    assert world.scheduler.workflows() == [workflow()]


def test_a_modified_workflow_goes_by_its_new_freshness(world: World) -> None:
    world.scheduler.create(workflow())
    world.tick()
    world.scheduler.modify(workflow(freshness=2 * HOUR))
    assert world.after(HOUR) == []
    world.scheduler.modify(workflow(freshness=HOUR))
    assert world.tick() == [TOTAL]


def test_a_suspended_workflow_never_fires(world: World) -> None:
    world.scheduler.create(workflow())
    world.scheduler.suspend(TOTAL)
    world.scheduler.suspend(TOTAL)
    assert world.tick() == [] and world.after(9 * HOUR) == []
    assert world.scheduler.run(TOTAL, None, Progress()) == "suspended"
    assert world.state(TOTAL).state == "SUSPENDED"
    world.scheduler.resume(TOTAL)
    assert world.tick() == [TOTAL] and world.tick() == []


def test_a_deleted_workflow_is_gone(world: World) -> None:
    world.scheduler.create(workflow())
    world.scheduler.delete(TOTAL)
    world.scheduler.delete(TOTAL)
    assert world.scheduler.workflows() == [] and world.tick() == []
    for asked in (world.scheduler.suspend, world.scheduler.resume):
        with pytest.raises(UnknownName, match=r"`dws.user_total` has no refresh workflow"):
            asked(TOTAL)
    with pytest.raises(UnknownName, match=r"`dws.user_total` has no refresh workflow"):
        world.scheduler.modify(workflow())
    world.scheduler.create(workflow())
    assert world.tick() == [TOTAL]


def test_a_restart_keeps_what_the_scheduler_was_told(world: World) -> None:
    world.scheduler.create(workflow())
    world.scheduler.create(workflow(DAY, 24 * HOUR, levels=2))
    world.scheduler.suspend(DAY)
    turns = {status.turn for status in world.scheduler.status()}
    assert world.tick() == [TOTAL]
    turns |= {status.turn for status in world.scheduler.status()}
    world.start()
    assert world.scheduler.workflows() == [workflow(), workflow(DAY, 24 * HOUR, levels=2, suspended=True)]
    assert turns.isdisjoint({status.turn for status in world.scheduler.status()})
    assert world.tick() == [TOTAL]  # as every server does first: nobody knows what it missed
    assert world.tick() == []


def test_a_refresh_that_may_succeed_is_tried_again_with_longer_waits(world: World) -> None:
    world.scheduler.create(workflow())
    world.scheduler.create(workflow(DAY, 24 * HOUR))
    world.errors[TOTAL] = TransientError("the disk is full")
    assert set(world.tick()) == {TOTAL, DAY}  # the other goes on
    assert world.after(FIRST_RETRY - 0.1) == []
    assert world.after(0.1) == [TOTAL]
    assert world.after(2 * FIRST_RETRY - 0.1) == []
    world.errors.clear()
    assert world.after(0.1) == [TOTAL]
    assert world.after(0.8 * HOUR) == []
    assert world.after(0.1 * HOUR) == [TOTAL]


def test_what_a_person_must_mend_waits_for_the_person(world: World) -> None:
    world.scheduler.create(workflow())
    world.errors[TOTAL] = TerminalError("two rows share a key")
    assert world.tick() == [TOTAL] and world.after(HOUR / 4) == []
    world.errors.clear()
    world.scheduler.resume(TOTAL)
    assert world.tick() == [TOTAL] and world.tick() == []


def test_a_turn_is_done_once(world: World) -> None:
    world.scheduler.create(workflow())
    turn = world.state(TOTAL).turn
    assert world.scheduler.run(TOTAL, turn, Progress()) == ""
    assert world.scheduler.run(TOTAL, turn, Progress()) == f"turn {turn} is over"
    assert world.tick() == [] and world.refreshed == [TOTAL]


def test_upstreams_go_first_and_what_rests_waits(world: World) -> None:
    world.scheduler.create(workflow(DAY, levels=2))
    world.scheduler.create(workflow(TOTAL, levels=1))
    world.reads[DAY] = {TOTAL}
    world.paused.add(DAY)
    assert world.tick() == [TOTAL]
    assert world.state(DAY).state == "SUSPENDED"
    world.paused.clear()
    assert world.tick() == [DAY]
    assert world.after(HOUR) == [TOTAL, DAY]


def test_what_must_show_first_goes_before_what_has_time(catalog: Catalog) -> None:
    """Forty reports of a day take five seconds each; the minute's table, of level two, waits for none."""
    world = World(catalog)
    daily = [TableName("dws", f"day_{n:02}") for n in range(40)]
    for table in daily:
        world.scheduler.create(workflow(table, 24 * HOUR))
        world.takes[table] = 5.0
    world.scheduler.create(workflow(DAY, 24 * HOUR))
    world.scheduler.create(workflow(TOTAL, 120.0, levels=2))
    world.reads[TOTAL] = {DAY}
    begun = world.tick()
    while not set(begun) >= set(daily):
        begun += world.tick()
    assert begun[:2] == [DAY, TOTAL] and begun[2:].count(TOTAL) >= 2
    again = [n for n, table in enumerate(begun) if table == TOTAL]
    assert all(5.0 * (later - former) <= 60.0 for former, later in itertools.pairwise(again))


def test_the_scheduler_is_brought_to_what_is_declared(world: World) -> None:
    wanted = [workflow(), workflow(DAY, 24 * HOUR)]
    agree(world.scheduler, wanted)
    assert set(world.tick()) == {TOTAL, DAY}
    agree(world.scheduler, wanted)
    assert world.tick() == []
    agree(world.scheduler, [replace(wanted[1], freshness=HOUR, suspended=True)])
    assert world.scheduler.workflows() == [workflow(DAY, HOUR, suspended=True)]


# -- what only Dagster has ---------------------------------------------------------------------------------


def test_a_run_materializes_the_asset_by_one_statement(dagster: DagsterWorld) -> None:
    dagster.scheduler.create(workflow(DAY))
    turn = dagster.state(DAY).turn
    assert dagster.tick() == [DAY]
    assert dagster.turns == [turn]
    [result] = dagster.results
    assert result.dagster_run.tags[TURN_TAG] == turn
    [event] = result.asset_materializations_for_node(OP)
    assert event.asset_key == dg.AssetKey(["dws", "user_day"]) and event.partition is None
    assert event.metadata["range"].value == "what is new"


def test_a_lost_run_is_asked_for_again_and_a_waiting_one_is_not(
    dagster: DagsterWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    dagster.scheduler.create(workflow())
    [request] = dagster.evaluate().run_requests
    tags = {**request.tags, "dagster/run_key": request.run_key}
    begun = dg.DagsterRun(job_name="j", status=dg.DagsterRunStatus.STARTED, tags=tags)
    begun = dagster.instance.add_run(begun)
    assert not dagster.evaluate().run_requests
    dagster.instance.report_run_failed(begun, "the machine went down")
    ended = time.time()
    assert not dagster.evaluate().run_requests  # what makes runs fail seldom passes at once
    monkeypatch.setattr(workflows.time, "time", lambda: ended + LOST_SECONDS)
    assert dagster.tick() == [TOTAL]


def test_a_run_that_comes_too_late_does_nothing(dagster: DagsterWorld) -> None:
    dagster.scheduler.create(workflow())
    [request] = dagster.evaluate().run_requests
    dagster.scheduler.suspend(TOTAL)
    late = dagster.run(request)
    assert late is not None and late.success and dagster.refreshed == []
    assert late.asset_materializations_for_node(OP) == []


def test_a_failed_run_fails_once(dagster: DagsterWorld) -> None:
    """The workflow tries again, not the run."""
    dagster.scheduler.create(workflow())
    dagster.errors[TOTAL] = TransientError("the disk is full")
    assert dagster.tick() == [TOTAL]
    failure = dagster.results[0].failure_data_for_node(OP)
    assert failure is not None and failure.user_failure_data is not None
    assert failure.user_failure_data.description == "the disk is full"


def test_a_turn_that_dagster_does_not_take_is_told(dagster: DagsterWorld) -> None:
    dagster.scheduler.create(workflow())
    dagster.now += OVERDUE_SECONDS - 1
    assert dagster.scheduler.warnings(TOTAL) == []
    dagster.now += 1
    [told] = dagster.scheduler.warnings(TOTAL)
    assert "due for 120 s" in told and "sensor `refresh_workflows`" in told
    assert dagster.scheduler.warnings(DAY) == []
    dagster.tick()
    assert dagster.scheduler.warnings(TOTAL) == []


def test_the_sensor_leaves_alone_what_the_warehouse_refreshes(dagster: DagsterWorld) -> None:
    dagster.scheduler = WarehouseScheduler(
        dagster.catalog.workflows, dagster.refresh, dagster.paused.__contains__, Turns(), lambda _: ()
    )
    dagster.scheduler.create(workflow())
    told = dagster.evaluate()
    assert not told.run_requests and "itself" in told.skip_message


def test_no_warehouse_is_a_skipped_tick(dagster: DagsterWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_GATEWAY_PORT", "1")
    assert "headrace up" in dagster.evaluate().skip_message


@pytest.mark.parametrize("scheduler", ["warehouse", "dagster"])
def test_the_sensor_runs_only_where_the_setting_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheduler: str
) -> None:
    monkeypatch.setenv("HEADRACE_SCHEDULER", scheduler)
    defs = build_definitions(definitions_support.write_project(tmp_path))
    status = defs.get_repository_def().get_sensor_def(SENSOR).default_status
    assert (status is dg.DefaultSensorStatus.RUNNING) == (scheduler == "dagster")


def test_a_refresh_before_the_first_rows_is_none(catalog: Catalog) -> None:
    """A daily report that starts with its source must not wait half a day for what comes a minute later."""
    source = SimpleNamespace(name=TableName("dwd", "s"), store=SimpleNamespace(version=0))
    report = SimpleNamespace(
        name=TableName("dws", "report"),
        mode=RefreshMode.INCREMENTAL,
        freshness=timedelta(days=1),
        store=SimpleNamespace(commit=SimpleNamespace(template="", complete_through=""), version=0),
        template="",
        lacks=None,
    )
    made: list[int] = []
    registry = cast("Any", RegistryOf(source, report))
    known = SimpleNamespace(workflows=catalog.workflows, desired=lambda _: "RUNNING", observe=lambda *_: None)
    refreshes = Refreshes(
        "warehouse",
        registry,
        cast("Catalog", known),
        [cast("Any", report)],
        advance=lambda _: made.append(source.store.version),
        failed=lambda table, error: pytest.fail(str(error)),
        rests=lambda _: False,
    )
    for version in (0, 0, 1, 1, 2):
        source.store.version = version
        refreshes.tick()
    assert made == [0, 1]


class RegistryOf:
    """`source` ← `reader`."""

    def __init__(self, source: Any, reader: Any) -> None:
        self.tables = {t.name: t for t in (source, reader)}
        self._upstreams = {reader.name: {source.name: source}}

    def __getitem__(self, name: TableName) -> Any:
        return self.tables[name]

    def upstreams(self, table: Any) -> dict[TableName, Any]:
        return self._upstreams[table.name]
