"""Rewriting a range's partitions of a snapshot with the table's rows now; all others keep their files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.engine.compaction.compaction import live_rows, write_local, write_snapshot
from headrace.engine.rows.batch_rows import in_range
from headrace.engine.table.table import Table
from headrace.spec.partitions.label_range import LabelRange
from headrace.store.live.head import Head
from headrace.store.live.key_joins import is_unique, tuples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def overwrite(
    spark: SparkSession,
    table: Table,
    labels: LabelRange | None,
    *,
    run_id: str,
) -> tuple[list[str], int]:
    """Overwrite the partitions of the range, the whole snapshot where there is none.

    Returns:
        The labels written, and the rows that they hold now.
    """
    store = table.store
    column, key = store.schema.partition, list(store.schema.key)
    with store.compacting:
        if column is None or labels is None:
            version = store.version
            rows = store.frame(spark, version=version).dropDuplicates(key)
            write_snapshot(table, rows, None, version=version, compacted=version, run_id=run_id)
            return [], store.head_index().count(None)
        if store.commit.rows <= table.limits.rows and (head := table.warm_head()) is not None:
            return _in_driver(table, head, labels.among(head.labels(column)), run_id=run_id)
        version, pin = store.version, store.pin
        rows = in_range(store.frame(spark, version=version), table, labels).dropDuplicates(key)
        found = {str(r[0]): r[1] for r in rows.groupBy(column).count().collect()}
        partitions = labels.among({*store.head_index().partitions, *found})
        if partitions:
            write_snapshot(table, rows, partitions, version=version, compacted=pin.compacted, run_id=run_id)
        return partitions, sum(found.values())


def _in_driver(table: Table, head: Head, partitions: list[str], *, run_id: str) -> tuple[list[str], int]:
    """As `overwrite`, with the range's rows in the driver where they fit."""
    rows = _unique(live_rows(head, table.store.schema.partition, partitions), table)
    if partitions:
        write_local(
            table,
            rows,
            partitions,
            version=head.commit.version,
            compacted=head.pin.compacted,
            run_id=run_id,
        )
    return partitions, rows.num_rows


def _unique(rows: pa.Table, table: Table) -> pa.Table:
    """One row of each key. Copies are all that can be left of damage: what differs was corrected before."""
    key = table.store.schema.key
    if table.store.schema.joinable and is_unique(rows, key):
        return rows
    first = dict(zip(reversed(keys := tuples(rows, key)), range(len(keys) - 1, -1, -1), strict=True))
    return rows if len(first) == rows.num_rows else rows.take(pa.array(sorted(first.values()), pa.int64()))
