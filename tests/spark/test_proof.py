"""VERIFY of several tables: two at a time, in their order, all of it under the statement's own tag."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from harness import Harness
from orders_chain import LAYERS, nine_orders

from headrace.engine.proof import verify as module
from headrace.engine.proof.verify import WIDTH, Proof
from headrace.engine.spark.job_group import JobGroup
from headrace.engine.spark.sessions import Sessions
from headrace.engine.table.table import Table
from headrace.errors import Cancelled, TerminalError
from headrace.progress import Progress
from headrace.results import ParityResult
from headrace.sources.topics import Topics
from headrace.spec.partitions.label_range import LabelRange

NAMES = ["dws.total", "dwd.paid", "dws.by_user"]
CHAIN = {name.replace(".", "/"): LAYERS[name.replace(".", "/")] for name in NAMES}
compare = module.verify_batch


@pytest.fixture
def warehouse(harness: Callable[..., Harness]) -> Harness:
    return nine_orders(harness(CHAIN), compacted=True)


def verify(warehouse: Harness, sessions: Sessions, progress: Progress) -> list[ParityResult]:
    none = cast(Topics, None)  # no table of these reads one
    work = Proof(sessions, warehouse.registry, [], str, none, "", Path(), "run")
    tables = [warehouse.table(name) for name in NAMES]
    with JobGroup(sessions.batch, progress, sessions.statements):
        return work.verify(tables, None, source=True, progress=progress)


def test_two_at_a_time_and_their_jobs_are_the_statements(
    warehouse: Harness, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = threading.Barrier(WIDTH, timeout=60)
    pools: list[tuple[str, str]] = []

    def compared(spark: Any, registry: Any, table: Table, labels: LabelRange | None) -> ParityResult:
        context = sessions.batch.sparkContext
        [tag] = context.getJobTags()
        pools.append((context.getLocalProperty("spark.scheduler.pool"), tag))
        if len(pools) <= WIDTH:
            both.wait()  # the second begins before the first has ended
        return compare(spark, registry, table, labels)

    monkeypatch.setattr(module, "verify_batch", compared)
    results = verify(warehouse, sessions, Progress())
    assert [(r.table, r.equal) for r in results] == [(name, True) for name in NAMES]
    assert len(pools) == len(NAMES) and len(set(pools)) == 1
    assert pools[0][0] == "batch"
    assert not sessions.batch.sparkContext.getJobTags()


def test_after_a_failure_the_others_do_not_begin(
    warehouse: Harness, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []

    def compared(spark: Any, registry: Any, table: Table, labels: LabelRange | None) -> ParityResult:
        begun.append(str(table.name))
        if str(table.name) == NAMES[0]:
            raise TerminalError("it cannot be read")
        return compare(spark, registry, table, labels)

    monkeypatch.setattr(module, "WIDTH", 1)
    monkeypatch.setattr(module, "verify_batch", compared)
    with pytest.raises(TerminalError, match="it cannot be read"):
        verify(warehouse, sessions, Progress())
    assert NAMES[-1] not in begun


def test_a_cancelled_one_ends_both(
    warehouse: Harness, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    progress = Progress()
    begun: list[str] = []

    def compared(spark: Any, registry: Any, table: Table, labels: LabelRange | None) -> ParityResult:
        begun.append(str(table.name))
        if len(begun) == WIDTH:
            progress.cancel()
        return compare(spark, registry, table, labels)

    monkeypatch.setattr(module, "verify_batch", compared)
    with pytest.raises(Cancelled):
        verify(warehouse, sessions, progress)
    assert len(begun) == WIDTH
