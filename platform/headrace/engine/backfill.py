"""Backfill: recompute partitions by the same SQL while streams run, exactly and quietly.

The batch result at the table's recorded frontier is compared with what the table held there. Only what
differs goes to the changelog, marked as a correction; keys that the stream has changed since are already
right and left alone. Then the snapshot's partitions are overwritten.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.engine.advance import Sessions
from headrace.engine.cluster import check_changes
from headrace.engine.compaction import DRIVER_ROWS, compact, live_rows, write_local, write_snapshot
from headrace.engine.diff import diff_frame
from headrace.engine.rows import batch_rows, in_range
from headrace.engine.table import Registry, Table
from headrace.progress import Progress
from headrace.results import RefreshResult
from headrace.store.commits import Commit
from headrace.store.lookup import tuples
from headrace.store.schema import BACKFILL, DELETE, INSERT, KIND, SEQUENCE, UPDATE_AFTER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CORRECTIONS_LIMIT = 200_000
"""Correcting rows that one backfill brings through the driver; more are committed by a Spark job."""


def backfill(
    sessions: Sessions,
    registry: Registry,
    table: Table,
    start: str | None,
    end: str | None,
    *,
    expected: DataFrame | None = None,
    version: int | None = None,
    run_id: str,
    progress: Progress,
) -> RefreshResult:
    """Recompute the inclusive range (everything where None) and overwrite its partitions.

    Args:
        expected: what the range should hold at `version`; by default the table's SQL at its frontier.
        version: the changelog version that `expected` belongs to.
    Raises:
        ConstraintViolated, Cancelled: nothing was committed.
    """
    begun = time.monotonic()
    spark = sessions.batch
    with table.store.writing:  # between two refreshes: version and frontier belong together
        commit, frontier = table.store.commit, table.reached
    at = commit.version if version is None else version
    progress.report(f"{table.name}: running the query for {start or 'everything'} … {end or ''}".rstrip(" …"))
    if expected is None:
        expected = batch_rows(spark, registry, table, frontier, start=start, end=end)
    actual = in_range(table.store.frame(spark, version=at), table, start, end)
    wanted = _sequenced(expected, actual, table)
    changes = diff_frame(actual, wanted, table.store.schema).persist()
    try:
        check_changes(changes, table)
        count = changes.count()
        progress.report(f"{table.name}: {count} correcting rows")
        if count <= CORRECTIONS_LIMIT:
            counts = _commit(table, changes.toArrow(), at, run_id=run_id)
        else:
            counts = _commit_frame(sessions, table, changes, at, run_id=run_id)
    finally:
        changes.unpersist()
    progress.report(f"{table.name}: overwriting the partitions")
    partitions, rows = _overwrite(sessions, table, start, end, run_id=run_id)
    return RefreshResult(
        table=str(table.name),
        start=start or "",
        end=end or "",
        partitions=partitions,
        rows=rows,
        inserted=counts[INSERT],
        updated=counts[UPDATE_AFTER],
        deleted=counts[DELETE],
        version=table.store.version,
        seconds=time.monotonic() - begun,
    )


def _sequenced(expected: DataFrame, actual: DataFrame, table: Table) -> DataFrame:
    """stg rows keep the sequence they have; rows that were missing get the newest applied one."""
    from pyspark.sql import functions as F

    if not table.store.schema.sequenced:
        return expected
    key = list(table.store.schema.key)
    known = actual.select(*key, SEQUENCE)
    high = F.lit(table.store.commit.high)
    return expected.join(known, key, "left").withColumn(SEQUENCE, F.coalesce(F.col(SEQUENCE), high))


def _correction(table: Table, head: Commit, *, run_id: str) -> Commit:
    """The record of a correction. The frontier is where the stream found nothing more to do."""
    return replace(
        head,
        upstreams=table.reached,
        mode="backfill",
        version=head.version + 1,
        template=table.template,
        run_id=run_id,
        batch=-1,
        accounting={},
    )


def _commit(table: Table, corrections: pa.Table, at: int, *, run_id: str) -> Counter[str]:
    """Append the corrections of keys that nothing has changed since `at`. Returns rows by kind."""
    store = table.store
    adopts = store.commit.template != table.template  # the range is the whole table: see `Warehouse.refresh`
    if not corrections.num_rows and not adopts:
        return Counter()
    with store.writing:
        head = store.commit
        since = store.changelog.read(at, head.version)
        moved = set(tuples(since, store.schema.key))
        keep = [i for i, k in enumerate(tuples(corrections, store.schema.key)) if k not in moved]
        corrections = corrections.take(pa.array(keep, pa.int64()))
        if corrections.num_rows or adopts:
            store.append(corrections, _correction(table, head, run_id=run_id), origin=BACKFILL)
    return Counter(corrections.column(KIND).to_pylist())


def _commit_frame(
    sessions: Sessions, table: Table, changes: DataFrame, at: int, *, run_id: str
) -> Counter[str]:
    """As `_commit`, by a Spark job; the table's stream waits meanwhile."""
    store = table.store
    with store.writing:
        head = store.commit
        since = store.changelog.frame(sessions.batch, at, head.version).select(*store.schema.key).distinct()
        still = changes.join(since, list(store.schema.key), "left_anti").persist()
        counts = Counter({r[KIND]: r["count"] for r in still.groupBy(KIND).count().collect()})
        correction = _correction(table, head, run_id=run_id)
        store.append_frame(still, correction, origin=BACKFILL, kinds=counts)
        still.unpersist()
        compact(sessions.batch, table, run_id=run_id)
    return counts


def _overwrite(
    sessions: Sessions, table: Table, start: str | None, end: str | None, *, run_id: str
) -> tuple[list[str], int]:
    """Rewrite the range's partitions of the snapshot with the table's rows now."""
    store = table.store
    column = store.schema.partition
    with store.compacting:
        small = store.commit.rows <= DRIVER_ROWS
        if small and not store.cold and column is not None and start is not None and end is not None:
            return _overwrite_local(table, start, end, run_id=run_id)
        version, pin = store.version, store.pin
        rows = in_range(store.frame(sessions.batch, version=version), table, start, end)
        if column is None or start is None or end is None:
            write_snapshot(table, rows, None, version=version, compacted=version, run_id=run_id)
            return [], store.head_index().count(None)
        found = {str(r[0]): r[1] for r in rows.groupBy(column).count().collect()}
        stored = {str(p) for p in store.head_index().partitions if p is not None and start <= p <= end}
        partitions = sorted(stored | set(found))
        if partitions:
            write_snapshot(table, rows, partitions, version=version, compacted=pin.compacted, run_id=run_id)
        return partitions, sum(found.values())


def _overwrite_local(table: Table, start: str, end: str, *, run_id: str) -> tuple[list[str], int]:
    """As `_overwrite`, with the range's rows in the driver where they fit."""
    head, column = table.store.head(), table.store.schema.partition
    assert column is not None
    known = head.index.partitions | set(head.tail.rows.column(column).to_pylist())
    partitions = sorted(p for p in known if p is not None and start <= p <= end)
    rows = live_rows(head, column, partitions)
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
