"""What the supervisor does with tables that no flow advances, without Spark."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from planner_support import write_table

from headrace.catalog import Catalog
from headrace.engine.supervisor import supervisor as module
from headrace.engine.supervisor.admission import Admission
from headrace.engine.supervisor.failures import Failures
from headrace.engine.supervisor.supervisor import Supervisor
from headrace.errors import Cancelled, NeedsResync, TerminalError, TransientError
from headrace.progress import Progress
from headrace.results import RefreshResult
from headrace.scheduling import turns
from headrace.spec.model import RefreshMode
from headrace.spec.partitions.completion import RunMode


class Tables(SimpleNamespace):
    """A registry of tables that read nothing."""

    def __init__(self, tables: dict[Any, Any]) -> None:
        super().__init__(tables=tables, upstreams=lambda table: {})

    def __getitem__(self, name: Any) -> Any:
        return self.tables[name]

    def __iter__(self) -> Iterator[Any]:
        """None has rows to be compacted or maintained."""
        return iter(())


@dataclass
class Scheduled:
    """A supervisor of one table that is refreshed on a schedule."""

    supervisor: Supervisor
    catalog: Catalog
    table: Any
    refreshed: threading.Event = field(default_factory=threading.Event)
    advance: Callable[[Any], None] = lambda _: None


def settings_of(scheduler: str) -> Any:
    return SimpleNamespace(scheduler=scheduler, compaction_interval_seconds=60.0, small_files=10)


@pytest.fixture
def scheduled(tmp_path: Path, catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scheduled]:
    monkeypatch.setattr(module, "TICK", 0.01)
    spec = write_table(tmp_path, "SELECT id, logdate FROM stg.orders", key="id")
    commit = SimpleNamespace(
        template="old", version=3, rows=7, kinds={"+I": 2}, partitions=("a", None), complete_through=""
    )
    store = SimpleNamespace(version=3, commit=commit)
    mode = RefreshMode.INCREMENTAL
    table = SimpleNamespace(
        name=spec.name,
        spec=SimpleNamespace(source=None, run_mode=RunMode.REAL_TIME),
        store=store,
        template="old",
        mode=mode,
        freshness=None,
        lacks=None,
    )
    catalog.register(spec, mode)
    context = SimpleNamespace(setLocalProperty=lambda *_: None)
    nothing = cast("Any", None)
    found = Scheduled(cast("Supervisor", None), catalog, table)
    found.advance = lambda _: found.refreshed.set()
    registry = cast("Any", Tables({spec.name: table}))
    found.supervisor = Supervisor(
        cast("Any", SimpleNamespace(flows=[], scheduled=[table])),
        registry,
        settings_of("warehouse"),
        catalog,
        cast("Any", SimpleNamespace(batch=SimpleNamespace(sparkContext=context))),
        nothing,
        nothing,
        Admission(registry, catalog),
        Failures(catalog),
        advance=lambda table: found.advance(table),
        held=lambda: None,
        sources=cast("Any", SimpleNamespace(look=lambda names: None, alerts=lambda source: [])),
    )
    yield found
    found.supervisor.stop()


def new(scheduled: Scheduled, turn: str | None = None, progress: Progress | None = None) -> RefreshResult:
    """`REFRESH NEW`."""
    return scheduled.supervisor.refreshes.now(scheduled.table, turn, progress or Progress())


def run(scheduled: Scheduled) -> None:
    scheduled.supervisor.start()


def state(scheduled: Scheduled, wanted: str) -> str | None:
    """Wait for the table's state; its error."""
    for _ in range(1000):
        row = scheduled.catalog.row(scheduled.table.name)
        if row.state == wanted:
            return row.error
        threading.Event().wait(0.01)
    raise AssertionError(row)


def test_a_scheduled_table_is_refreshed(scheduled: Scheduled) -> None:
    run(scheduled)
    assert scheduled.refreshed.wait(10)
    assert state(scheduled, "RUNNING") is None


def test_a_table_without_a_workflow_is_suspended_and_resumed(scheduled: Scheduled) -> None:
    """The batch alone writes it: nobody refreshes it on a schedule."""
    supervisor, catalog = scheduled.supervisor, scheduled.catalog
    supervisor.arrangement.scheduled.clear()
    supervisor.refreshes.agree()
    supervisor.suspend(None, scheduled.table)
    assert catalog.row(scheduled.table.name).state == "SUSPENDED"
    supervisor.resume(None, scheduled.table)
    assert catalog.row(scheduled.table.name).state == "RUNNING"
    scheduled.table.store.commit.complete_through = "2026112209"  # it is to stream now
    scheduled.table.spec = SimpleNamespace(run_mode=RunMode.REAL_TIME)
    with pytest.raises(TerminalError, match=r"up to partition '2026112209'.*refresh dws\.result --all"):
        supervisor.resume(None, scheduled.table)
    assert catalog.row(scheduled.table.name).state == "FAILED"


class Starting(SimpleNamespace):
    """A flow that a statement asks for its table while it starts."""

    def start(self, names: Iterable[Any]) -> None:
        self.active = set(names)
        self.statement.start()
        self.statement.join(0.3)  # it has this long to come too early

    def leave(self, name: Any) -> None:
        self.active.discard(name)

    def close(self) -> None:
        pass


def test_a_table_suspended_while_its_flow_starts_stays_suspended(scheduled: Scheduled) -> None:
    supervisor, catalog, table = scheduled.supervisor, scheduled.catalog, scheduled.table

    def suspend() -> None:
        catalog.set_desired(table.name, "SUSPENDED")
        supervisor.suspend(cast("Any", flow), table)

    flow = Starting(name="flow", tables=[table], statement=threading.Thread(target=suspend))
    supervisor.stop()  # none of its threads is to look after the flow
    supervisor.arrangement.flows.append(cast("Any", flow))
    supervisor.start()
    flow.statement.join(10)
    assert catalog.row(table.name).state == "SUSPENDED"
    assert not flow.active


def test_what_is_declared_is_declared_anew_when_a_calendar_turns(scheduled: Scheduled) -> None:
    declared, turned, holds = threading.Event(), threading.Event(), threading.Event()
    supervisor, project = scheduled.supervisor, cast("Any", object())

    def hold() -> None:
        if not holds.is_set():
            holds.set()
            raise TerminalError("`shop` is being loaded")

    def declare(found: Any) -> list[Any]:
        assert found is project and holds.is_set()
        turned.clear()
        declared.set()
        return []

    supervisor.arrangement = cast(
        "Any", SimpleNamespace(turned=lambda _: turned.is_set(), project=project, flows=[])
    )
    supervisor.held, supervisor.declare = hold, declare  # type: ignore[method-assign]
    supervisor.start()
    assert not declared.wait(0.2)
    turned.set()
    assert declared.wait(10)


def test_a_refresh_that_fails_is_tried_again_soon(
    scheduled: Scheduled, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduled.table.freshness = timedelta(days=1)
    monkeypatch.setattr(turns, "FIRST_RETRY", 0.05)
    tried: list[float] = []

    def fails_twice(_: Any) -> None:
        tried.append(time.monotonic())
        if len(tried) < 3:
            raise TransientError("the disk is full")
        scheduled.refreshed.set()

    scheduled.advance = fails_twice
    run(scheduled)
    assert "the disk is full" in str(state(scheduled, "FAILED"))
    assert scheduled.refreshed.wait(10)
    assert state(scheduled, "RUNNING") is None
    assert len(tried) == 3


def test_what_a_person_must_mend_is_not_tried_again_and_again(
    scheduled: Scheduled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not either where an error went before that might have passed."""
    scheduled.table.freshness = timedelta(days=1)
    monkeypatch.setattr(turns, "FIRST_RETRY", 0.05)
    errors = iter([TransientError("the disk is full"), NeedsResync("the slot was lost")])

    def fails(_: Any) -> None:
        raise next(errors, AssertionError("tried again"))

    scheduled.advance = fails
    run(scheduled)
    assert state(scheduled, "NEEDS RESYNC") == "the slot was lost"
    threading.Event().wait(0.5)
    assert scheduled.catalog.row(scheduled.table.name).error == "the slot was lost"


def test_rows_of_another_text_are_not_added_to(scheduled: Scheduled) -> None:
    scheduled.table.template = "new"
    run(scheduled)
    error = state(scheduled, "FAILED")
    assert error is not None and "since version 3. Next: `headrace apply`" in error
    assert not scheduled.refreshed.is_set()
    with pytest.raises(TerminalError, match="the definition changed"):
        scheduled.supervisor.resume(None, scheduled.table)


def test_a_table_whose_rows_are_being_renewed_rests(scheduled: Scheduled) -> None:
    scheduled.table.template = "new"
    scheduled.supervisor.admission.paused.add(scheduled.table.name)
    run(scheduled)
    assert not scheduled.refreshed.wait(0.5)
    assert scheduled.catalog.row(scheduled.table.name).state == "INITIALIZING"
    scheduled.table.template = "old"
    scheduled.supervisor.admission.paused.clear()
    assert scheduled.refreshed.wait(10)


def test_a_full_refresh_makes_them_all_anew(scheduled: Scheduled) -> None:
    scheduled.table.template, scheduled.table.mode = "new", RefreshMode.FULL
    run(scheduled)
    assert scheduled.refreshed.wait(10)
    scheduled.supervisor.resume(None, scheduled.table)


def test_what_is_new_can_be_asked_for(scheduled: Scheduled) -> None:
    told = new(scheduled)  # nothing new: it stays at its version
    assert scheduled.refreshed.is_set()
    assert (told.version, told.rows, told.inserted, told.partitions, told.skipped) == (3, 7, 0, [], "")
    commit = scheduled.table.store.commit
    scheduled.advance = lambda _: setattr(commit, "version", 4)
    told = new(scheduled)
    assert (told.version, told.inserted, told.updated, told.partitions) == (4, 2, 0, ["a"])
    [workflow] = scheduled.supervisor.refreshes.scheduler.status()
    assert workflow.state == "WAITING"  # it counts as the schedule's own


def test_a_table_that_streams_or_rests_is_not_asked_for_what_is_new(scheduled: Scheduled) -> None:
    supervisor, name = scheduled.supervisor, scheduled.table.name
    scheduled.catalog.set_desired(name, "SUSPENDED")
    supervisor.suspend(None, scheduled.table)
    with pytest.raises(TerminalError, match=rf"suspended. Next: `headrace resume {name}`"):
        new(scheduled)
    [workflow] = supervisor.refreshes.scheduler.status()
    assert new(scheduled, workflow.turn).skipped == "suspended"
    supervisor.arrangement.scheduled.clear()
    supervisor.refreshes.agree()
    with pytest.raises(TerminalError, match=rf"streams.*`headrace refresh {name} --all`"):
        new(scheduled)
    assert not scheduled.refreshed.is_set()


def test_a_suspended_table_stays_so_after_a_restart(scheduled: Scheduled) -> None:
    scheduled.catalog.set_desired(scheduled.table.name, "SUSPENDED")
    scheduled.supervisor.suspend(None, scheduled.table)
    again = replace(scheduled.supervisor, settings=settings_of("dagster"))
    [workflow] = again.refreshes.scheduler.status()
    assert (workflow.state, workflow.scheduler) == ("SUSPENDED", "dagster")
    scheduled.catalog.set_desired(scheduled.table.name, "RUNNING")
    again.resume(None, scheduled.table)
    [workflow] = again.refreshes.scheduler.status()
    assert workflow.state == "DUE"


def test_a_cancelled_refresh_is_no_failure(scheduled: Scheduled) -> None:
    progress = Progress()

    def stopped(_: Any) -> None:
        progress.cancel()
        raise RuntimeError("Job 7 cancelled")

    scheduled.advance = stopped
    with pytest.raises(Cancelled):
        new(scheduled, progress=progress)
    assert scheduled.catalog.row(scheduled.table.name).state == "INITIALIZING"
    [workflow] = scheduled.supervisor.refreshes.scheduler.status()
    assert workflow.state == "WAITING" and workflow.due_in > turns.LONGEST_RETRY / 4


def test_dagster_is_waited_for(scheduled: Scheduled) -> None:
    """The server's own thread begins nothing, and the next turn is Dagster's."""
    scheduled.supervisor.stop()
    again = replace(scheduled.supervisor, settings=settings_of("dagster"))
    scheduled.supervisor = again
    run(scheduled)
    assert not scheduled.refreshed.wait(0.3)
    [workflow] = again.refreshes.scheduler.status()
    assert workflow.state == "DUE"
    assert new(scheduled, workflow.turn).skipped == "" and scheduled.refreshed.is_set()
    assert new(scheduled, workflow.turn).skipped == f"turn {workflow.turn} is over"


def test_a_table_that_gives_way_says_by_how_much(scheduled: Scheduled) -> None:
    by: dict[Any, float] = {scheduled.table.name: 2.43}
    name = scheduled.table.name
    flow = SimpleNamespace(names={name}, stretch=lambda name: by[name], close=lambda: None)
    scheduled.supervisor.arrangement.flows.append(cast("Any", flow))
    [told] = scheduled.supervisor.warnings(scheduled.table)
    assert "gives way" in told and "2.4 times as late as it declares" in told
    by[scheduled.table.name] = 1.0
    assert scheduled.supervisor.warnings(scheduled.table) == []
