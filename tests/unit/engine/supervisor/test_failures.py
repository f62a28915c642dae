"""A table that leaves its flow at the moment at which somebody says that it runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from planner_support import write_table

from headrace.catalog import Catalog
from headrace.engine.supervisor.failures import Failures
from headrace.errors import SnapshotAnew, TransientError
from headrace.spec.model import RefreshMode, TableName

WAITED = 0.3
"""Seconds that a thread has that must not come through."""


class Flow:
    """Its thread lets its only table leave once it is asked to."""

    def __init__(self, failures: Failures, table: Any, why: Exception) -> None:
        self.active = {table.name}
        self._leave = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(failures, table, why))
        self._thread.start()

    def _run(self, failures: Failures, table: Any, why: Exception) -> None:
        self._leave.wait()
        self.active.discard(table.name)
        failures.failed(table, why)

    def let_leave(self, seconds: float | None = None) -> None:
        self._leave.set()
        self._thread.join(seconds)


class Slow(Catalog):
    """Something is done just before it says that a table runs."""

    before: Callable[[], None]

    def observe(self, name: TableName | str, state: Any, error: str | None = None) -> None:
        if state == "RUNNING":
            self.before()
        super().observe(name, state, error)


@pytest.mark.parametrize(
    ("why", "state"),
    [(SnapshotAnew("began anew"), "NEEDS RESYNC"), (TransientError("Kafka does not answer"), "FAILED")],
)
def test_that_it_has_left_is_what_stays(tmp_path: Path, why: Exception, state: str) -> None:
    spec = write_table(tmp_path, "SELECT id, logdate FROM stg.orders", key="id")
    table = cast("Any", SimpleNamespace(name=spec.name))
    catalog = Slow(f"sqlite:///{tmp_path / 'catalog.db'}")
    catalog.register(spec, RefreshMode.CONTINUOUS)
    failures = Failures(catalog)
    flow = Flow(failures, table, why)
    catalog.before = lambda: flow.let_leave(WAITED)
    assert failures.runs(table, flow.active)  # as far as anybody could know
    flow.let_leave()
    assert catalog.row(spec.name).state == state
    assert failures.waiting(str(spec.name)) or table.name in failures.anew
    assert not failures.runs(table, flow.active)
    assert catalog.row(spec.name).state == state
    catalog.close()
