"""TOP_N: rank what a change touched among the rows that the table holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.engine.refresh.constraints import check_violations
from headrace.engine.refresh.strategies.affected import affected_rows
from headrace.engine.refresh.work import Frames, Work
from headrace.engine.rows.cells import TooLarge, TooWide
from headrace.engine.rows.diff import diff
from headrace.engine.spark.persisted import Persisted
from headrace.engine.spark.query import temporary_views, with_violations
from headrace.engine.table.table import Table
from headrace.planner.strategies import TopN
from headrace.store.live.key_joins import anti_join

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MARK = "_mark"


def in_driver(work: Work, strategy: TopN) -> pa.Table:
    """The net change of the first rows.

    Raises:
        TooLarge: the rows do not fit the driver.
        TooWide: fewer than LIMIT known rows rank at or above the old last one, so unknown ones may come up.
    """
    spark, table = work.sessions.flow, work.table
    if strategy.limit > table.limits.compared:
        raise TooLarge
    affected, found = affected_rows(work, "unlimited", strategy.unlimited, strategy.inner)
    stored = table.store.head().read()
    kept = anti_join(stored, strategy.inner.columns, affected)
    last = _ranked(spark, table, strategy, _marked(stored, 0)).slice(strategy.limit - 1)
    candidates = [_marked(kept, 0), _marked(found.select(kept.column_names).cast(kept.schema), 0)]
    known = _ranked(spark, table, strategy, *candidates, _marked(last.select(kept.column_names), 1))
    marks = known.column(_MARK).to_pylist()
    if 1 in marks[: strategy.limit]:
        raise TooWide("rows that the table does not hold may come up among its first ones")
    result = known.slice(0, strategy.limit)
    check_violations(result, table)
    return diff(stored, result, table.store.schema, table=str(table.name))


def on_spark(work: Work, strategy: TopN, frames: Frames, persist: Persisted) -> DataFrame:
    """Raises TooWide."""
    raise TooWide("only the driver keeps the first rows of an order")


def _marked(rows: pa.Table, mark: int) -> pa.Table:
    """`rows` told from others: 0 for rows of the query, 1 for the boundary, the old last row."""
    return rows.append_column(_MARK, pa.array([mark] * rows.num_rows, pa.int32()))


def _ranked(spark: SparkSession, table: Table, strategy: TopN, *parts: pa.Table) -> pa.Table:
    """The first rows in the query's own order, by Spark, and one more. Of equal rows the boundary is last."""
    schema = table.store.schema
    names = [*schema.stored_names, _MARK]
    rows = pa.concat_tables([part.select(names) for part in parts])
    order = ", ".join((*strategy.order, _MARK))

    def build(frames: list[DataFrame]) -> DataFrame:
        with temporary_views(spark, frames) as [view]:
            first = spark.sql(f"SELECT * FROM {view} ORDER BY {order} LIMIT {strategy.limit + 1}")
        return with_violations(first, table.spec)

    return table.run.queries.run(spark, "ranked", [(rows, (*schema.stored, (_MARK, "int")))], build)
