"""The quarantine of a table: rows of its query that a QUARANTINE constraint keeps out of it.

It is kept nowhere: the same SQL gives it over the same input, so it is never out of step with the table,
costs a micro-batch nothing, and is empty as soon as rule or data are mended. A derived table's is computed
over its upstreams at the frontier that its rows cover; a stg table's over the source at a position, which
unlike the topic has all of its rows for good.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.engine.proof.verify import Proof
from headrace.engine.rows.batch_rows import quarantined_rows
from headrace.engine.spark.job_group import JobGroup
from headrace.engine.spark.query import BROKEN, quarantining
from headrace.engine.spark.sessions import Sessions
from headrace.engine.table.offline_bound import unwritten
from headrace.engine.table.run import InQuarantine
from headrace.engine.table.table import Registry, Table, is_stg
from headrace.errors import Cancelled
from headrace.progress import Progress
from headrace.spec.partitions.label_range import LabelRange
from headrace.store.frames import local
from headrace.store.schema import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

LEAST_SECONDS, SHARE = 30.0, 0.1
"""A quarantine is counted again no sooner, and takes no more of the time than this share."""


@dataclass(frozen=True)
class Quarantine:
    sessions: Sessions
    registry: Registry
    proof: Proof

    def frame(self, spark: SparkSession, table: Table, labels: LabelRange | None = None) -> DataFrame:
        """The table's own columns and `BROKEN`: the names of the constraints that a row breaks."""
        columns = (*table.store.schema.columns, (BROKEN, "array<string>"))
        if not quarantining(table.spec):
            return local(spark, arrow_schema(columns).empty_table(), columns)
        if is_stg(table):
            return local(spark, self.proof.quarantined(table, labels), columns)
        return self._derived(spark, table, labels)

    def _derived(self, spark: SparkSession, table: Table, labels: LabelRange | None) -> DataFrame:
        with table.store.writing:  # between two refreshes: version and frontier belong together
            commit, frontier = table.store.commit, table.reached
        empty = unwritten(table, None)
        if empty:
            frontier = self.registry.versions(table)
        through = commit.complete_through
        rows = quarantined_rows(
            spark, self.registry, table, frontier, labels=labels, complete_through=through
        )
        return rows.limit(0) if empty else rows

    def rows(self, table: Table) -> pa.Table:
        """All of it, in the driver."""
        at, begun = (table.store.version, table.reached), time.monotonic()
        rows = self.frame(self.sessions.batch, table).toArrow()
        names = [name for broken in rows.column(BROKEN).to_pylist() for name in broken]
        by_name = {c.name: names.count(c.name) for c in quarantining(table.spec)}
        self._note(table, InQuarantine(*at, rows.num_rows, by_name, time.monotonic() - begun))
        return rows

    def count(self, table: Table, labels: LabelRange | None = None) -> InQuarantine:
        """How many rows it has, and how many break each constraint."""
        from pyspark.sql import functions as F

        at, begun = (table.store.version, table.reached), time.monotonic()
        rules = quarantining(table.spec)
        by_name = [F.count_if(F.array_contains(BROKEN, c.name)).alias(f"c{i}") for i, c in enumerate(rules)]
        frame = self.frame(self.sessions.batch, table, labels)
        found = frame.agg(F.count("*").alias("rows"), *by_name).collect()[0]
        counts = {c.name: found[f"c{i}"] for i, c in enumerate(rules)}
        counted = InQuarantine(*at, found["rows"], counts, time.monotonic() - begun)
        if labels is None:
            self._note(table, counted)
        return counted

    @staticmethod
    def _note(table: Table, counted: InQuarantine) -> None:
        if quarantining(table.spec):
            table.run.quarantine = counted


@dataclass
class Counting:
    """Counts quarantines again while somebody looks at the status: beside the flows, one at a time.

    Of derived tables alone: a stg table's is counted when its source is read for it.
    """

    quarantine: Quarantine
    _stopping: threading.Event = field(init=False, default_factory=threading.Event)
    _under_way: Progress = field(init=False, default_factory=Progress)
    _thread: threading.Thread | None = field(init=False, default=None)
    _tried: dict[str, float] = field(init=False, default_factory=dict)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)

    def look(self, tables: Iterable[Table]) -> None:
        """Somebody looks at the tables' status. Returns at once."""
        due = [table for table in tables if self._due(table)]
        with self._lock:
            if not due or self._stopping.is_set() or (self._thread and self._thread.is_alive()):
                return
            self._under_way = Progress()
            self._thread = threading.Thread(target=self._count, args=(due,), name="quarantine", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End what is being counted."""
        with self._lock:
            self._stopping.set()
            self._under_way.cancel()
        if self._thread is not None:
            self._thread.join()

    def _due(self, table: Table) -> bool:
        if is_stg(table) or not quarantining(table.spec):
            return False
        known, tried = table.run.quarantine, self._tried.get(str(table.name))
        if tried is None:
            return True
        if known is not None and known.reached == table.reached:
            return False
        wait = max(LEAST_SECONDS, (known.seconds / SHARE) if known is not None else 0.0)
        return time.monotonic() - tried >= wait

    def _count(self, tables: Sequence[Table]) -> None:
        for table in tables:
            if self._under_way.cancelled:
                return
            try:
                with JobGroup(self.quarantine.sessions.batch, self._under_way, None):
                    self.quarantine.count(table)
            except Cancelled:
                return
            except Exception:
                log.exception("the quarantine of %s is not counted", table.name)
            self._tried[str(table.name)] = time.monotonic()
