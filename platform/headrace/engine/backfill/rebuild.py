"""A table that begins again: its definition gives other columns, another key or another partition.

Changes between rows of two shapes mean nothing, so there are none: the whole result takes the rows' place,
and whoever reads its changes begins with it.
"""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from headrace.engine.backfill.reread import Reread
from headrace.engine.compaction.compaction import laid_out
from headrace.engine.refresh.audit import audit, audit_batch
from headrace.engine.refresh.constraints import check_changes
from headrace.engine.rows.batch_rows import batch_rows, complete, in_range
from headrace.engine.spark.persisted import Persisted
from headrace.engine.spark.sessions import Sessions
from headrace.engine.table.immutable import start_label
from headrace.engine.table.offline_bound import unwritten
from headrace.engine.table.table import Registry, Table
from headrace.planner.policy.backfill import complete_through_after
from headrace.progress import Progress
from headrace.results import RefreshResult
from headrace.spec.partitions.labels import mutable_range, open_range
from headrace.store import creation
from headrace.store.record.commits import Commit
from headrace.store.schema import INSERT, KIND, SEQUENCE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def rebuild(
    sessions: Sessions,
    registry: Registry,
    table: Table,
    *,
    expected: DataFrame | None = None,
    reread: Reread | None = None,
    frontier: dict[str, int] | None = None,
    complete_through: str | None = None,
    run_id: str,
    progress: Progress,
) -> RefreshResult:
    """Put the result of the table's SQL, over its upstreams as they are now, in place of all that it holds.

    The table rests meanwhile.

    Args:
        expected: the rows, where they are known: those of a stg table by its source, of one built aside.
        reread: what comes with a stg table's rows.
        frontier: the upstream versions of a derived table's.
        complete_through: of a table that the batch alone writes: the last partition that it is to have.
    Raises:
        ConstraintViolated, Cancelled: nothing was written.
    """
    begun = time.monotonic()
    store = table.store
    progress.report(f"{table.name}: running the query for everything, with its new columns")
    with store.writing, Persisted() as persist:
        frontier = registry.versions(table) if frontier is None else frontier
        bound = start_label(table.spec, None, datetime.now(UTC))
        rows = expected
        if rows is None:
            rows = batch_rows(sessions.batch, registry, table, frontier)
        through = complete_through_after(table.spec, store.commit.complete_through, None, complete_through)
        if unwritten(table, None) and not through:
            through = open_range(table.spec).start  # its first run is still to come
        rows = complete(rows, table, through)
        rows = in_range(rows, table, mutable_range(table.spec, bound, None))
        rows = persist(_stored(rows, table, reread))
        check_changes(_inserted(rows), table)
        audit(sessions.batch, table, rows)
        audit_batch(table, rows, persist)
        count = rows.count()
        commit = _record(store.commit, table, count, frontier, reread, run_id)
        commit = replace(commit, immutable_before=bound, complete_through=through)
        snapshot = replace(commit, mode="compaction", through=commit.version)
        progress.report(f"{table.name}: writing {count} rows")
        with store.compacting:
            creation.rebuild(store, laid_out(rows, store.schema, count), commit, snapshot)
            creation.describe(store, table.spec.definition)
            store.open()
        table.run.covered, table.reshaped = {}, False
    return RefreshResult(
        table=str(table.name),
        start="",
        end="",
        partitions=[],
        rows=count,
        inserted=count,
        updated=0,
        deleted=0,
        version=store.version,
        seconds=time.monotonic() - begun,
    )


def _stored(rows: DataFrame, table: Table, reread: Reread | None) -> DataFrame:
    from pyspark.sql import functions as F

    schema = table.store.schema
    if schema.sequenced:
        own = table.store.commit.high if reread is None else reread.sequence
        rows = rows.withColumn(SEQUENCE, F.lit(own))
    return rows.select(*schema.stored_names)


def _inserted(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return rows.withColumn(KIND, F.lit(INSERT))


def _record(
    head: Commit, table: Table, rows: int, frontier: dict[str, int], reread: Reread | None, run_id: str
) -> Commit:
    what = {"upstreams": frontier, "template": table.template, "rows": rows}
    record = head.next("backfill", run_id, loaded=0, loaded_at={}, **what)
    # The changelog begins with these rows, so the topic before them gives none of it.
    return record if reread is None else replace(reread, lost=True).record(record)
