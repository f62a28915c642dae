"""AFFECTED_KEYS and AFFECTED_PARTITIONS: the same query again, for what the change can touch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.engine.refresh.constraints import check_violations
from headrace.engine.refresh.work import Frames, HeadLeaves, Work
from headrace.engine.rows.cells import (
    TooLarge,
    alike,
    restricted,
    restricted_frame,
    semi_join_frame,
    touched_cells,
    touched_cells_frame,
)
from headrace.engine.rows.diff import diff, diff_frame
from headrace.engine.spark.persisted import Persisted
from headrace.engine.spark.query import run, used_columns, with_violations
from headrace.planner.strategies import AffectedKeys, AffectedPartitions
from headrace.spec.model import TableSpec
from headrace.store.live.key_joins import KeySet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def in_driver(work: Work, strategy: AffectedKeys | AffectedPartitions) -> pa.Table:
    """Rows are looked up in the driver, Spark runs only the SQL, whatever the table's size.

    Raises:
        TooLarge: more rows than the limits would come to the driver, or columns that are followed do not
            compare in Python as in Spark.
        TooWide: the change can touch any row.
    """
    table = work.table
    affected, result = affected_rows(work, "affected", table.stored_query, strategy)
    old = table.store.head().find(strategy.columns, affected)
    if old.num_rows > table.limits.compared:
        raise TooLarge
    check_violations(result, table)
    return diff(old, result, table.store.schema, table=str(table.name))


def on_spark(
    work: Work, strategy: AffectedKeys | AffectedPartitions, frames: Frames, persist: Persisted
) -> DataFrame:
    """Over a change or a table that the driver does not hold. Raises TooWide: it can touch any row."""
    spark, table = work.sessions.large, work.table
    rows, changed = frames.of(work)
    affected = persist(touched_cells_frame(strategy.cells, rows, changed))
    inputs = restricted_frame(strategy.cells, rows, affected)
    old = semi_join_frame(table.store.frame(spark), strategy.columns, affected, null_safe=True)
    return diff_frame(old, run(spark, table.stored_query, inputs), table.store.schema)


def affected_rows(
    work: Work, purpose: str, spec: TableSpec, strategy: AffectedKeys | AffectedPartitions
) -> tuple[KeySet, pa.Table]:
    """The cells that the change touches, and what the query of `spec` gives for them.

    Args:
        purpose: a name for `spec` among the table's queries.
    Raises:
        TooLarge, TooWide: see `in_driver`.
    """
    spark, table, schemas = work.sessions.flow, work.table, work.schemas
    if not alike(strategy.cells, schemas):
        raise TooLarge
    changes, now = work.changed, [work.heads[name] for name in work.references]
    affected = touched_cells(strategy.cells, changes, HeadLeaves(table, now, changes))
    found = restricted(strategy.cells, HeadLeaves(table, now), affected)
    inputs = [(found[i], used_columns(spec, s.columns)) for i, s in enumerate(schemas)]
    return affected, table.run.queries.run(
        spark, purpose, inputs, lambda frames: with_violations(run(spark, spec, frames), spec)
    )
