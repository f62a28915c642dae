"""Writing a source's changes into stg tables, as their ingest would: one net change and one commit each."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.in_process.warehouse import RUN
from headrace.engine.compaction.compaction import compact, snapshot_commit
from headrace.engine.rows.diff import diff
from headrace.engine.table.table import Delta, Table
from headrace.sources.stream.envelope import sequence
from headrace.store.live.key_joins import KeySet, tuples
from headrace.store.record.commits import Commit
from headrace.store.schema import DELETE, INSERT, KIND, SEQUENCE, STREAM, arrow_schema, conform

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LSN = 8
"""Every commit of a feed stands this much later in its source than the one before."""


def next_commit(table: Table, events: int) -> Commit:
    """The record of the table's next commit, `events` messages after the last."""
    head = table.store.commit
    version = table.store.version + 1
    commit = replace(
        head,
        mode="stream",
        version=version,
        template=table.template,
        run_id=RUN,
        source_ms=int(time.time() * 1000),
    )
    if table.spec.source is None:
        return commit
    topic = table.spec.source.topic
    reached = head.offsets.get(topic, {}).get(0, 0)
    return replace(
        commit, offsets={topic: {0: reached + events}}, high=sequence(head.generation, version * LSN)
    )


def load(spark: SparkSession, table: Table, file: Path) -> None:
    """The first rows of an empty table, from a Parquet file: by the driver where they fit, else by Spark."""
    count = pq.read_metadata(file).num_rows
    if count > table.limits.rows:
        append(spark, table, spark.read.parquet(str(file)), {INSERT: count})
        return
    rows = pq.read_table(file)
    commit = next_commit(table, count)
    if table.store.schema.sequenced:
        rows = rows.append_column(SEQUENCE, pa.array([commit.high] * count, pa.string()))
    rows = conform(rows, arrow_schema(table.store.schema.stored))
    record = snapshot_commit(table, version=commit.version, compacted=commit.version, run_id=RUN)
    table.store.load(rows, commit, record, tombstones=None)


def change(table: Table, put: Sequence[dict[str, Any]], gone: KeySet) -> Delta:
    """Insert or update rows by key, and delete keys, in one commit from the driver.

    Args:
        put: rows with the table's own columns; no key twice.
        gone: keys to delete; those the table does not hold change nothing.
    """
    schema = table.store.schema
    commit = next_commit(table, len(put) + len(gone))
    new = pa.Table.from_pylist(list(put), schema=arrow_schema(schema.columns))
    old = table.store.head().find(schema.key, gone | set(tuples(new, schema.key)))
    if schema.sequenced:
        new = new.append_column(SEQUENCE, pa.array([commit.high] * new.num_rows, pa.string()))
    changes = diff(old, new, schema, table=str(table.name))
    if schema.sequenced:  # a deletion carries its own sequence: it blocks resurrection
        own = changes.column(SEQUENCE).to_pylist()
        kinds = changes.column(KIND).to_pylist()
        marked = [commit.high if k == DELETE else s for k, s in zip(kinds, own, strict=True)]
        at = changes.schema.get_field_index(SEQUENCE)
        changes = changes.set_column(at, SEQUENCE, pa.array(marked, pa.string()))
    return _append(table, changes, commit)


def append_local(table: Table, changes: pa.Table) -> Delta:
    """Net changes of a table without source sequences, from the driver: its columns and `_kind`."""
    columns = (*table.store.schema.stored, (KIND, "string"))
    return _append(table, conform(changes, arrow_schema(columns)), next_commit(table, changes.num_rows))


def _append(table: Table, changes: pa.Table, commit: Commit) -> Delta:
    table.store.append(changes, commit, origin=STREAM)
    return Delta(table.name, commit.version - 1, commit.version, changes, changes.num_rows)


def append(spark: SparkSession, table: Table, changes: DataFrame, kinds: dict[str, int]) -> Delta:
    """Net changes by a Spark job, then compaction: for what is too large for the driver.

    Args:
        changes: the table's columns, and `_kind` where they are not all insertions.
        kinds: number of change rows by kind.
    """
    from pyspark.sql import functions as F

    commit = next_commit(table, sum(kinds.values()))
    if KIND not in changes.columns:
        changes = changes.withColumn(KIND, F.lit(INSERT))
    if table.store.schema.sequenced:
        changes = changes.withColumn(SEQUENCE, F.lit(commit.high))
    table.store.append_large(changes, commit, origin=STREAM, kinds=kinds)
    compact(spark, table, run_id=RUN)
    return Delta(table.name, commit.version - 1, commit.version, None, sum(kinds.values()))
