"""VERIFY of several tables: two at a time, in their order, all of it under the statement's own tag."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, cast

import pyarrow.compute as pc
import pytest
from comparison import multiset
from deltalake import DeltaTable, write_deltalake
from harness import Harness
from orders_chain import HOURS, LAYERS, change, nine_orders

from headrace.engine.compaction.compaction import compact
from headrace.engine.proof import parity
from headrace.engine.proof import verify as module
from headrace.engine.proof.verify import WIDTH, Proof
from headrace.engine.rows.batch_rows import in_range
from headrace.engine.spark.job_group import JobGroup
from headrace.engine.spark.sessions import Sessions
from headrace.engine.table.table import Table
from headrace.errors import Cancelled, TerminalError
from headrace.progress import Progress
from headrace.results import ParityResult
from headrace.spec.partitions.label_range import LabelRange

NAMES = ["dws.total", "dwd.paid", "dws.by_user"]
CHAIN = {name.replace(".", "/"): LAYERS[name.replace(".", "/")] for name in NAMES}
compare = module.verify_batch

PLACES: dict[str, dict[str, int]] = {"driver": {}, "spark": {"rows": -1}}


@pytest.fixture
def warehouse(harness: Callable[..., Harness]) -> Harness:
    return nine_orders(harness(CHAIN), compacted=True)


def verify(warehouse: Harness, sessions: Sessions, progress: Progress) -> list[ParityResult]:
    none = cast("Any", None)  # no table of these reads a topic
    work = Proof(sessions, warehouse.registry, [], str, none, none, none, none, "", Path(), "run")
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


def test_the_driver_reads_at_each_version_what_spark_does(harness: Callable[..., Harness]) -> None:
    warehouse = harness({name: LAYERS[name] for name in ("dwd/paid", "dws/by_user", "dws/active")})
    chance = Random(5)
    for step in range(4):
        for _ in range(8):
            change(warehouse.source, chance)
        warehouse.step()
        if step == 1:
            for table in warehouse.registry:
                compact(warehouse.sessions.batch, table, run_id="test")
    for table in warehouse.registry:
        store = table.store
        for version in range(1, store.version + 1):
            frame = store.frame(warehouse.sessions.batch, version=version)
            for labels in (None, LabelRange(HOURS[1], HOURS[2]), LabelRange.exactly({HOURS[0]})):
                held = store.read(version, labels).select(list(store.schema.stored_names))
                wanted = in_range(frame, table, labels).toArrow()
                assert multiset(held) == multiset(wanted), (table.name, version, labels)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("labels", [None, LabelRange(HOURS[1], HOURS[2])])
def test_wherever_rows_are_compared_what_differs_is_found(
    warehouse: Harness, place: str, labels: LabelRange | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = warehouse.table("dws.by_user")
    warehouse.limit(**PLACES[place])
    counted_by_spark: list[str] = []
    by_spark = parity.multiplicities
    monkeypatch.setattr(
        parity, "multiplicities", lambda *sides: counted_by_spark.append(place) or by_spark(*sides)
    )
    right = compare(warehouse.sessions.batch, warehouse.registry, table, labels)
    assert counted_by_spark == ([place] if place == "spark" else [])
    assert (right.equal, right.missing, right.extra) == (True, 0, 0)
    held = DeltaTable(str(table.store.snapshot.path))
    rows = held.to_pyarrow_table()
    one = rows.filter(pc.equal(rows.column("hour"), HOURS[1])).slice(0, 1)
    write_deltalake(held, one, mode="append")  # by another engine
    wrong = compare(warehouse.sessions.batch, warehouse.registry, table, labels)
    assert (wrong.equal, wrong.missing, wrong.extra, wrong.rows) == (False, 0, 1, right.rows + 1)
    assert [found.row["hour"] for found in wrong.sample] == [HOURS[1]]


def test_the_driver_is_not_given_more_than_it_may_hold(warehouse: Harness) -> None:
    table, spark = warehouse.table("dws.by_user"), warehouse.sessions.batch
    rows = in_range(table.store.frame(spark), table, None)
    warehouse.limit(rows=rows.count())
    held = parity._compared_in_driver(table, table.store.version, rows, None)
    assert held is not None and not held.differs
    assert parity._compared_in_driver(table, table.store.version, rows.unionAll(rows), None) is None
