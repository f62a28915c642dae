"""Everything at once: the stream, compaction and backfills of overlapping ranges, over rows that get damaged.

Afterwards every table equals its SQL in batch, and folding its changelog gives its snapshot and tail.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from functools import partial

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from harness import Harness
from orders_chain import HOURS, LAYERS, change

from headrace.engine.backfill.backfill import backfill
from headrace.engine.compaction.compaction import compact
from headrace.engine.table.table import Table
from headrace.progress import Progress
from headrace.spec.partitions.label_range import LabelRange
from headrace.store.live.key_joins import tuples
from headrace.store.schema import DELETE, KIND, UPDATE_BEFORE, VERSION

TABLES = ("dwd/paid", "dwd/cities", "dws/by_user", "dws/by_city", "dws/top")
ROUNDS = 5
MOST_ROUNDS = 100
"""The stream goes on as long as nothing was compacted, backfilled or corrected beside it."""

SEED = 20261121


class Crowd:
    """Threads that go on until the stream has done its rounds; the first failure ends all of them."""

    def __init__(self, warehouse: Harness) -> None:
        self.warehouse = warehouse
        self.done = threading.Event()
        self.failures: list[BaseException] = []
        self.counts = {"compactions": 0, "backfills": 0, "corrections": 0}
        self.derived = [t for t in warehouse.registry if t.spec.source is None]

    def run(self, rounds: int) -> None:
        work = [partial(self._stream, rounds), self._compactor, self._backfiller, self._backfiller]
        threads = [threading.Thread(target=self._guarded, args=(w, i)) for i, w in enumerate(work)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.failures:
            raise self.failures[0]

    def _guarded(self, work: Callable[[random.Random], None], number: int) -> None:
        try:
            work(random.Random(SEED + number))
        except BaseException as error:
            self.failures.append(error)
        finally:
            if number == 0 or self.failures:
                self.done.set()

    def _stream(self, rounds: int, chance: random.Random) -> None:
        for done in range(MOST_ROUNDS):
            for _ in range(6):
                change(self.warehouse.source, chance)
            self.warehouse.step()
            print(f"round {done + 1}: {self.counts}", flush=True)
            if self.done.is_set() or (done + 1 >= rounds and min(self.counts.values()) > 0):
                return

    def _compactor(self, chance: random.Random) -> None:
        while not self.done.is_set():
            table = chance.choice(list(self.warehouse.registry))
            self.counts["compactions"] += compact(self.warehouse.sessions.batch, table, run_id="test")
            self.done.wait(0.02)

    def _backfiller(self, chance: random.Random) -> None:
        while not self.done.is_set():
            table = chance.choice(self.derived)
            start, end = sorted(chance.choices(HOURS, k=2))
            labels: LabelRange | None = LabelRange(start, end)
            if chance.random() < 0.5:
                damage(table, chance.choice(HOURS))
            if chance.random() < 0.2:
                labels = None
            found = backfill(
                self.warehouse.sessions,
                self.warehouse.registry,
                table,
                labels,
                run_id="test",
                progress=Progress(),
            )
            self.counts["backfills"] += 1
            self.counts["corrections"] += found.inserted + found.updated + found.deleted


def damage(table: Table, hour: str) -> None:
    """Another engine writes wrong values into rows of the snapshot; keys and partitions stay."""
    store = table.store
    column = {"dwd.paid": "user_id", "dwd.cities": "user_id", "dws.by_user": "cnt"}.get(str(table.name))
    if column is None:
        return
    with store.compacting:
        rows = store.head_index().find(("hour",), {(hour,)})
        if not rows.num_rows or column in store.schema.key:
            return
        place = rows.column_names.index(column)
        wrong = rows.set_column(place, column, pa.array([77] * rows.num_rows, pa.int64()))
        write_deltalake(
            str(store.snapshot.path),
            wrong.cast(rows.schema),
            mode="overwrite",
            predicate=f"hour = '{hour}'",
            partition_by=["hour"],
        )
        store.reread()


def folded(table: Table) -> list[tuple[object, ...]]:
    """The table's rows from its changelog alone: the latest row of every key."""
    store = table.store
    changes = store.changelog.read(0, store.version).sort_by(VERSION)
    names = list(store.schema.stored_names)
    live: dict[tuple[object, ...], tuple[object, ...] | None] = {}
    versions: dict[tuple[object, ...], int] = {}
    kinds, at = changes.column(KIND).to_pylist(), changes.column(VERSION).to_pylist()
    for key, row, kind, version in zip(
        tuples(changes, store.schema.key), tuples(changes, names), kinds, at, strict=True
    ):
        gone = kind in (DELETE, UPDATE_BEFORE)
        if gone and versions.get(key) == version and live.get(key) is not None:
            continue  # the new row of this version came first
        live[key], versions[key] = None if gone else row, version
    return sorted((r for r in live.values() if r is not None), key=repr)


@pytest.mark.long
def test_stream_compaction_and_overlapping_backfills_at_once(harness: Callable[..., Harness]) -> None:
    print(f"seed {SEED}")
    warehouse = harness({k: LAYERS[k] for k in TABLES})
    chance = random.Random(SEED)
    for _ in range(20):
        change(warehouse.source, chance)
    warehouse.step()
    crowd = Crowd(warehouse)
    crowd.run(ROUNDS)
    print(crowd.counts)
    assert min(crowd.counts.values()) > 0
    for table in crowd.derived:  # what was damaged last may still be so
        warehouse.backfill(str(table.name))
        warehouse.advance()
    warehouse.assert_parity()
    for table in warehouse.registry:
        head = table.store.head().read()
        live = sorted(tuples(head, list(table.store.schema.stored_names)), key=repr)
        assert folded(table) == live, str(table.name)
    warehouse.open()  # what memory held is what the log says
    warehouse.advance()  # past corrections that changed nothing here, which no commit recorded
    warehouse.assert_parity()
    for table in warehouse.registry:
        compact(warehouse.sessions.batch, table, run_id="test")
        snapshot = table.store.head_index().read()
        rows = sorted(tuples(snapshot, list(table.store.schema.stored_names)), key=repr)
        assert folded(table) == rows, str(table.name)
