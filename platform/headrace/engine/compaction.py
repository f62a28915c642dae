"""Compaction: bring a snapshot forward to the changelog by rewriting the partitions that changed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.engine.table import Table
from headrace.store.commits import Commit
from headrace.store.tables import Head

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

WHOLE_TABLE_SHARE = 0.8
"""Share of partitions beyond which the whole snapshot is rewritten: one predicate less to check."""


DRIVER_ROWS = 1_000_000
"""Rows that the driver rewrites itself; more are a Spark job's work."""


def compact(spark: SparkSession, table: Table, *, run_id: str) -> bool:
    """Fold the tail into the snapshot. Readers keep what they have; streams go on meanwhile.

    Returns:
        True where the snapshot moved.
    """
    store = table.store
    with store.compacting:
        if store.version <= store.pin.compacted:
            return False
        if store.cold:
            version, pin = store.version, store.pin
            rows = store.frame(spark, version=version)
            partitions = _touched_on_cluster(spark, table, pin.compacted, version)
            write_snapshot(table, rows, partitions, version=version, compacted=version, run_id=run_id)
            return True
        head = store.head()
        version = head.commit.version
        partitions = _touched(table, head)
        if partitions == []:
            return False  # nothing but tombstones and repeats
        if head.index.count(partitions) + len(head.tail.keys) > DRIVER_ROWS:
            rows = store.frame(spark, version=version)
            write_snapshot(table, rows, partitions, version=version, compacted=version, run_id=run_id)
        else:
            found = live_rows(head, store.schema.partition, partitions)
            write_local(table, found, partitions, version=version, compacted=version, run_id=run_id)
    return True


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
    commit = snapshot_commit(table, version=version, compacted=compacted, run_id=run_id)
    store.snapshot.overwrite_local(rows, commit, partitions=partitions)
    store.adopt(store.snapshot.newest(), rows=rows if partitions is None else None)
    log.debug("%s: snapshot at version %s, %s rows", table.name, compacted, rows.num_rows)


def snapshot_commit(table: Table, *, version: int, compacted: int, run_id: str) -> Commit:
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
        through=max(version, store.pin.through),
    )


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
    if column is not None:
        rows = rows.repartition(rows[column])
    commit = snapshot_commit(table, version=version, compacted=compacted, run_id=run_id)
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
    return _few({row[0] for row in changes.select(column).distinct().collect()}, existing)


def _few(touched: set[str], existing: set[str]) -> list[str] | None:
    if None in touched or len(touched) > WHOLE_TABLE_SHARE * max(len(existing), 1):
        return None
    return sorted(touched)
