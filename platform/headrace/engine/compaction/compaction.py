"""Compaction: bring a snapshot forward to the changelog by rewriting the partitions that changed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.engine.spark.meter import METER
from headrace.engine.table.table import Table
from headrace.store.live.head import Cold, Head
from headrace.store.record.commits import Commit
from headrace.store.schema import TableSchema
from headrace.store.tables import fold_local

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

WHOLE_TABLE_SHARE = 0.8
"""Share of partitions beyond which the whole snapshot is rewritten: one predicate less to check."""


FILE_ROWS = 500_000
"""Rows of a snapshot's file that Spark writes, about: smaller files prune better, larger ones list faster."""


def compact(spark: SparkSession, table: Table, *, run_id: str) -> bool:
    """Fold the tail into the snapshot. Readers keep what they have; streams go on meanwhile.

    Returns:
        True where the snapshot moved.
    """
    with METER.of(table.name, "compaction", run_id):
        return _compact(spark, table, run_id=run_id)


def _compact(spark: SparkSession, table: Table, *, run_id: str) -> bool:
    store = table.store
    with store.compacting:
        if store.version <= store.pin.compacted:
            return False
        try:
            head = store.head()
        except Cold:
            version, pin = store.version, store.pin
            if (changes := _foldable(table)) is not None:
                _fold_in_driver(table, changes, version, run_id=run_id)
                return True
            rows = store.frame(spark, version=version)
            partitions = _touched_on_cluster(spark, table, pin.compacted, version)
            write_snapshot(table, rows, partitions, version=version, compacted=version, run_id=run_id)
            return True
        version = head.commit.version
        partitions = _touched(table, head)
        if partitions == []:
            return False  # nothing but tombstones and repeats
        if head.index.count(partitions) + len(head.tail.keys) > table.limits.rows:
            rows = store.frame(spark, version=version)
            write_snapshot(table, rows, partitions, version=version, compacted=version, run_id=run_id)
        else:
            found = live_rows(head, store.schema.partition, partitions)
            write_local(table, found, partitions, version=version, compacted=version, run_id=run_id)
    return True


def _foldable(table: Table) -> pa.Table | None:
    """The changes after the snapshot of a cold table, where the driver can fold them into its rows."""
    store, limits = table.store, table.limits
    after, through = store.pin.compacted, store.version
    if store.pin.through > after or through - after > limits.versions or not store.schema.joinable:
        return None
    rows, changes = store.head_index().count(None), store.changelog.count(after, through)
    if rows > limits.rows or store.commit.rows > limits.rows or changes > limits.changes:
        return None
    return store.changelog.read(after, through)


def _fold_in_driver(table: Table, changes: pa.Table, version: int, *, run_id: str) -> None:
    store = table.store
    column = store.schema.partition
    index = store.head_index()
    partitions = None
    if column is not None and index.partitions:
        partitions = _some(set(changes.column(column).unique().to_pylist()), index.partitions)
    kept = index.read() if partitions is None else index.find((str(column),), {(p,) for p in partitions})
    found = fold_local(kept, changes, store.schema)
    write_local(table, found, partitions, version=version, compacted=version, run_id=run_id)


def warm_head(spark: SparkSession, table: Table, *, run_id: str) -> Head:
    """The table's head; a cold table is compacted first. A large correction may make it cold meanwhile."""
    while True:
        try:
            return table.store.head()
        except Cold:
            compact(spark, table, run_id=run_id)


def live_rows(head: Head, column: str | None, partitions: list[str] | None) -> pa.Table:
    """The head's rows in these partitions, all where None."""
    if partitions is None or column is None:
        return head.read()
    return head.find((column,), {(p,) for p in partitions})


def write_local(
    table: Table,
    rows: pa.Table,
    partitions: list[str] | None,
    *,
    version: int,
    compacted: int,
    run_id: str,
) -> None:
    """As `write_snapshot`, with the rows in the driver."""
    store = table.store
    commit = snapshot_commit(
        table, version=version, compacted=compacted, run_id=run_id, partitions=partitions
    )
    store.snapshot.overwrite_local(rows, commit, partitions=partitions)
    store.adopt(store.snapshot.newest(), rows=rows, partitions=partitions)
    log.debug("%s: snapshot at version %s, %s rows", table.name, compacted, rows.num_rows)


def snapshot_commit(
    table: Table, *, version: int, compacted: int, run_id: str, partitions: list[str] | None = None
) -> Commit:
    """The record of a snapshot's commit: see `write_snapshot`."""
    store = table.store
    return Commit(
        table=str(table.name),
        mode="compaction",
        version=compacted,
        upstreams=store.commit.upstreams,
        offsets=store.commit.offsets,
        template=table.template,
        run_id=run_id,
        watermark_ms=store.watermark.at(compacted),
        through=max(version, store.pin.through),
        partitions=None if partitions is None else tuple(partitions),
    )


def laid_out(rows: DataFrame, schema: TableSchema, count: int) -> DataFrame:
    """About `count` rows as a snapshot's files have them."""
    column, files = schema.partition, -(-count // FILE_ROWS)
    order = [rows[c] for c in ((column, *schema.key) if column is not None else schema.key)]
    if files > 1:  # ranges of keys: a look-up of few keys opens few files
        rows = rows.repartitionByRange(files, *order)
    elif column is not None:
        rows = rows.repartition(rows[column])
    return rows.sortWithinPartitions(*order)


def write_snapshot(
    table: Table,
    rows: DataFrame,
    partitions: list[str] | None,
    *,
    version: int,
    compacted: int,
    run_id: str,
) -> None:
    """Replace partitions of the snapshot by the table's rows at `version` and let readers use it.

    Args:
        rows: the table's rows at `version`; only those of `partitions` are written (all where None).
        compacted: version up to which every partition is complete afterwards.
    """
    store = table.store
    column = store.schema.partition
    if partitions is not None and column is not None:
        rows = rows.where(rows[column].isin(partitions))
    rows = laid_out(rows, store.schema, store.head_index().count(partitions))
    commit = snapshot_commit(
        table, version=version, compacted=compacted, run_id=run_id, partitions=partitions
    )
    store.snapshot.overwrite(rows, commit, partitions=partitions)
    store.adopt(store.snapshot.newest())
    log.debug("%s: snapshot at version %s by Spark", table.name, compacted)


def _touched(table: Table, head: Head) -> list[str] | None:
    """Partitions with a change after the pinned snapshot, old places of moved rows included; None for all."""
    column = table.store.schema.partition
    if column is None:
        return None
    changes = table.store.changelog.read(head.pin.compacted, head.commit.version)
    return _few(set(changes.column(column).to_pylist()), head.index.partitions)


def _touched_on_cluster(spark: SparkSession, table: Table, after: int, through: int) -> list[str] | None:
    column = table.store.schema.partition
    existing = table.store.head_index().partitions
    if column is None or not existing:
        return None
    changes = table.store.changelog.frame(spark, after, through)
    return _some({row[0] for row in changes.select(column).distinct().collect()}, existing)


def _some(touched: set[str], existing: set[str]) -> list[str] | None:
    """As `_few`; one partition where a long tail touched none: only a commit of the snapshot shortens it."""
    found = _few(touched, existing)
    return found if found != [] else sorted(p for p in existing if p is not None)[:1] or None


def _few(touched: set[str], existing: set[str]) -> list[str] | None:
    if None in touched or len(touched) > WHOLE_TABLE_SHARE * max(len(existing), 1):
        return None
    return sorted(touched)
