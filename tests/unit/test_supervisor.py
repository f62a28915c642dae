"""What the supervisor does with tables that no flow advances, without Spark."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from planner_support import write_table

from headrace.catalog import Catalog
from headrace.engine import supervisor as module
from headrace.engine.supervisor import Supervisor
from headrace.errors import NeedsResync, TerminalError, TransientError
from headrace.spec.model import RefreshMode


@dataclass
class Scheduled:
    """A supervisor of one table that is refreshed on a schedule."""

    supervisor: Supervisor
    catalog: Catalog
    table: Any
    refreshed: threading.Event = field(default_factory=threading.Event)


@pytest.fixture
def scheduled(tmp_path: Path, catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scheduled]:
    monkeypatch.setattr(module, "TICK", 0.01)
    spec = write_table(tmp_path, "SELECT id, logdate FROM stg.orders", key="id")
    store = SimpleNamespace(version=3, commit=SimpleNamespace(template="old"))
    mode = RefreshMode.INCREMENTAL
    table = SimpleNamespace(name=spec.name, store=store, template="old", mode=mode, freshness=None)
    catalog.register(spec, mode)
    context = SimpleNamespace(setLocalProperty=lambda *_: None)
    nothing = cast("Any", None)
    found = Scheduled(cast("Supervisor", None), catalog, table)
    found.supervisor = Supervisor(
        cast("Any", SimpleNamespace(flows=[], scheduled=[table])),
        catalog,
        cast("Any", SimpleNamespace(batch=SimpleNamespace(sparkContext=context))),
        nothing,
        nothing,
        lambda _: found.refreshed.set(),
        60.0,
        10,
        nothing,
        cast("Any", SimpleNamespace(upstreams=lambda table: {})),
        nothing,
    )
    yield found
    found.supervisor.stop()


def run(scheduled: Scheduled) -> None:
    thread = threading.Thread(target=scheduled.supervisor._schedule, daemon=True)
    scheduled.supervisor._threads.append(thread)
    thread.start()


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
        "Any", SimpleNamespace(calendar_turned=turned.is_set, project=project, flows=[])
    )
    supervisor.held, supervisor.declare = hold, declare  # type: ignore[method-assign]
    thread = threading.Thread(target=supervisor._follow_calendars, daemon=True)
    supervisor._threads.append(thread)
    thread.start()
    assert not declared.wait(0.2)
    turned.set()
    assert declared.wait(10)


def test_a_refresh_that_fails_is_tried_again_soon(
    scheduled: Scheduled, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduled.table.freshness = timedelta(days=1)
    monkeypatch.setattr(module, "FIRST_RETRY", 0.05)
    tried: list[float] = []

    def fails_twice(_: Any) -> None:
        tried.append(time.monotonic())
        if len(tried) < 3:
            raise TransientError("the disk is full")
        scheduled.refreshed.set()

    scheduled.supervisor.advance = fails_twice
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
    monkeypatch.setattr(module, "FIRST_RETRY", 0.05)
    errors = iter([TransientError("the disk is full"), NeedsResync("the slot was lost")])

    def fails(_: Any) -> None:
        raise next(errors, AssertionError("tried again"))

    scheduled.supervisor.advance = fails
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
    scheduled.supervisor.resting.add(scheduled.table.name)
    run(scheduled)
    assert not scheduled.refreshed.wait(0.5)
    assert scheduled.catalog.row(scheduled.table.name).state == "INITIALIZING"
    scheduled.table.template = "old"
    scheduled.supervisor.resting.clear()
    assert scheduled.refreshed.wait(10)


def test_a_full_refresh_makes_them_all_anew(scheduled: Scheduled) -> None:
    scheduled.table.template, scheduled.table.mode = "new", RefreshMode.FULL
    run(scheduled)
    assert scheduled.refreshed.wait(10)
    scheduled.supervisor.resume(None, scheduled.table)
