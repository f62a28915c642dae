"""Compaction: bring a snapshot forward to the changelog by rewriting the partitions that changed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from headrace.engine.table import Table
from headrace.store.commits import Commit
from headrace.store.snapshot import Pin

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

WHOLE_TABLE_SHARE = 0.8
"""Share of partitions beyond which the whole snapshot is rewritten: one predicate less to check."""

ROWS_PER_FILE = 500_000


def compact(spark: SparkSession, table: Table, *, run_id: str) -> bool:
    """Fold the tail into the snapshot. Readers keep what they have; streams go on meanwhile.

    Returns:
        True where the snapshot moved.
    """
    store = table.store
    with store.compacting:
        version, pin = store.version, store.pin
        if version <= pin.compacted:
            return False
        rows = store.frame(spark, version=version)
        partitions = _touched(spark, table, pin.compacted, version)
        write_snapshot(table, rows, partitions, version=version, compacted=version, run_id=run_id)
    return True


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
    commit = Commit(
        table=str(table.name),
        mode="compaction",
        version=compacted,
        upstreams=store.commit.upstreams,
        offsets=store.commit.offsets,
        template=table.template,
        run_id=run_id,
        through=max(version, store.pin.through),
    )
    store.snapshot.overwrite(rows, commit, partitions=partitions)
    newest = store.snapshot.newest()
    store.adopt(Pin(newest.delta, newest.compacted, newest.through))
    log.debug("%s: snapshot at version %s", table.name, newest.compacted)


def _touched(spark: SparkSession, table: Table, after: int, through: int) -> list[str] | None:
    """Partitions with a change in `(after, through]`, None for "all of them"."""
    column = table.store.schema.partition
    if column is None:
        return None
    existing = table.store.head_index().partitions
    if not existing:
        return None
    changes = table.store.changelog.frame(spark, after, through)
    touched = [row[0] for row in changes.select(column).distinct().collect()]
    if None in touched or len(touched) > WHOLE_TABLE_SHARE * max(len(existing), 1):
        return None
    return touched
