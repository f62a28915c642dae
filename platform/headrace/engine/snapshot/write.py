"""Where the rows of a bulk snapshot go: straight into a table's files, or to Spark and its query."""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.engine.compaction.compaction import compact, snapshot_commit
from headrace.engine.ingest.direct import direct_query
from headrace.engine.ingest.spark import count_changes
from headrace.engine.refresh.audit import audit
from headrace.engine.refresh.constraints import check_changes
from headrace.engine.rows.diff import diff_frame
from headrace.engine.spark.arrow_query import run_direct
from headrace.engine.spark.persisted import Persisted
from headrace.engine.spark.query import run
from headrace.engine.table.table import StgTable, Table
from headrace.planner.sql.direct import Direct
from headrace.results import Accounting
from headrace.sources.schema import SourceSchema
from headrace.sources.stream.envelope import sequence
from headrace.store.delta.parts import Part, write_part
from headrace.store.record.commits import Commit
from headrace.store.record.frontier import Offsets, merge_offsets
from headrace.store.schema import (
    DELETE,
    INSERT,
    SEQUENCE,
    STREAM,
    UPDATE_AFTER,
    arrow_schema,
    spark_type,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PART_BYTES = 192 << 20
"""Bytes of rows in memory from which a range is written in several parts."""


@dataclass
class Target:
    """One stg table of the load, filled by several threads.

    Args:
        query: what Arrow runs; None where Spark runs the table's own text.
        staged: folder of the source's rows for Spark.
    """

    table: StgTable
    query: Direct | None
    staged: Path
    rows: int = 0
    parts: list[Part] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)

    @property
    def source(self) -> SourceSchema:
        """The captured table."""
        return self.table.source

    @property
    def arrow(self) -> pa.Schema:
        """Names and types of the source's columns."""
        return arrow_schema(self.source.typed)

    def take(self, batches: Iterator[pa.Table], place: int, sequence: str) -> None:
        """Write the rows of one range.

        Args:
            place: number of the range in its table.
            sequence: what every row is marked with.
        """
        if self.query is None:
            self._stage(batches, place)
        else:
            self._write(self.query, batches, place, sequence)

    def _stage(self, batches: Iterator[pa.Table], place: int) -> None:
        self.staged.mkdir(parents=True, exist_ok=True)
        with pq.ParquetWriter(self.staged / f"{place:06}.parquet", self.arrow, compression="lz4") as writer:
            for batch in batches:
                writer.write_table(batch)
                self._count(batch.num_rows)

    def _write(self, query: Direct, batches: Iterator[pa.Table], place: int, sequence: str) -> None:
        found: list[pa.Table] = []
        for batch in batches:
            self._count(batch.num_rows)
            found.append(run_direct(query, batch))
            if sum(rows.nbytes for rows in found) > PART_BYTES:  # its pages hold more than was estimated
                self._part(found, place, sequence)
                found = []
        self._part(found, place, sequence)

    def _part(self, found: list[pa.Table], place: int, sequence: str) -> None:
        rows = pa.concat_tables(found) if found else None
        if rows is None or not rows.num_rows:
            return
        store = self.table.store
        marks = pa.repeat(pa.scalar(sequence, pa.string()), rows.num_rows)
        name = f"{uuid.uuid4().hex[:12]}-{place:06}"
        part = write_part(
            store.root, store.schema, rows.append_column(SEQUENCE, marks), name, version=store.version + 1
        )
        with self.lock:
            self.parts.append(part)

    def _count(self, rows: int) -> None:
        with self.lock:
            self.rows += rows

    def discard(self) -> None:
        """Delete what is staged."""
        shutil.rmtree(self.staged, ignore_errors=True)


def plan_query(table: StgTable) -> Direct | None:
    """What Arrow may run for an empty table, None where Spark must."""
    if table.store.version or table.store.pin.compacted or table.store.schema.hidden:
        return None
    return direct_query(table)


@dataclass(frozen=True)
class Cut:
    """Where the load stands in its source: see `sources.bulk.slot.Exported`."""

    restart: int
    offsets: Offsets
    run_id: str

    def sequence(self, table: Table) -> str:
        """Older than every change that the slot delivers: each of them comes after the snapshot."""
        return sequence(table.store.commit.generation, max(0, self.restart - 1))


def commit_load(spark: SparkSession, target: Target, cut: Cut) -> None:
    """Commit the target's rows with the frontier at which its topic begins."""
    table = target.table
    with table.store.writing:
        if target.query is not None:
            rows = sum(part.rows for part in target.parts)
            commit = _commit(target, cut, Accounting(inserted=rows, filtered=target.rows - rows))
            record = snapshot_commit(
                table, version=commit.version, compacted=commit.version, run_id=cut.run_id
            )
            table.store.load_parts(target.parts, commit, replace(record, offsets=commit.offsets))
        else:
            _commit_by_spark(spark, target, cut)


def _commit_by_spark(spark: SparkSession, target: Target, cut: Cut) -> None:
    """Rows through the table's own SQL. What an unfinished load left is corrected by its difference."""
    from pyspark.sql import functions as F

    table, store, schema = target.table, target.table.store, target.table.store.schema
    with Persisted() as persist:
        staged = _staged(spark, target)
        rows = run(spark, table.spec, [staged])
        rows = rows.withColumn(SEQUENCE, F.lit(cut.sequence(table)))
        old = store.frame(spark) if store.version else None
        changes = persist(diff_frame(old, rows, schema))
        check_changes(changes, table)
        audit(spark, table, changes)
        counts, left = count_changes(spark, table, changes, staged, rows, old)
        inserted, updated = counts.get(INSERT, 0), counts.get(UPDATE_AFTER, 0)
        accounting = Accounting(inserted=inserted, updated=updated, deleted=counts.get(DELETE, 0))
        accounting.leave_out(left)
        accounting.unchanged = target.rows - inserted - updated - sum(left.values())
        commit = _commit(target, cut, accounting)
        store.append_large(changes, commit, origin=STREAM, kinds=counts)
    compact(spark, table, run_id=cut.run_id)


def _staged(spark: SparkSession, target: Target) -> DataFrame:
    kinds = spark_type(target.source.typed)
    if not target.staged.is_dir():
        return spark.createDataFrame([], kinds)
    return spark.read.schema(kinds).parquet(str(target.staged))


def _commit(target: Target, cut: Cut, accounting: Accounting) -> Commit:
    """The record of the load, whose events are the rows that were read, and those that are gone since."""
    table = target.table
    head = table.store.commit
    changed = accounting.inserted + accounting.updated + accounting.deleted + accounting.unchanged
    accounting.events = changed + accounting.filtered + sum(accounting.quarantined.values())
    return head.next(
        "stream",
        cut.run_id,
        offsets=merge_offsets(head.offsets, cut.offsets),
        template=table.template,
        origin=table.run.origin_after(head),
        high=max(head.high, cut.sequence(table)),
        source_ms=int(time.time() * 1000),
        accounting=accounting.model_dump(),
        loaded=head.version + 1,
    )
