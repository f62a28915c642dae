"""ROW: the query over the old images gives the rows that go, over the new images those that come."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from headrace.engine.refresh.constraints import check_violations
from headrace.engine.refresh.work import AFTER, BEFORE, Frames, Work, images
from headrace.engine.rows.diff import diff, diff_frame
from headrace.engine.spark.persisted import Persisted
from headrace.engine.spark.query import VIOLATED, run, with_violations
from headrace.engine.table.table import Table
from headrace.planner.strategies import Row
from headrace.store.frames import local
from headrace.store.schema import KIND

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def in_driver(work: Work, strategy: Row) -> pa.Table:
    """Over few changes: the plan is kept."""
    upstream, delta = work.only
    assert delta.rows is not None
    spark, table, columns = work.sessions.flow, work.table, upstream.store.schema.columns
    inputs = [(images(delta.rows, *kinds), columns) for kinds in (BEFORE, AFTER)]
    both = table.run.queries.run(spark, "row", inputs, partial(_both_sides, spark, table))
    before, after = _apart(both, table)
    return diff(before, after, table.store.schema, table=str(table.name))


def suits_arrow(table: Table, strategy: Row) -> bool:
    return True


def by_arrow(work: Work, strategy: Row) -> pa.Table:
    """Over more changes than plans are kept for; `schema.joinable` and `comparable` hold."""
    upstream, delta = work.only
    assert delta.rows is not None
    spark, table, columns = work.sessions.large, work.table, upstream.store.schema.columns
    inputs = [local(spark, images(delta.rows, *kinds), columns) for kinds in (BEFORE, AFTER)]
    before, after = _apart(_both_sides(spark, table, inputs).toArrow(), table)
    return diff(before, after, table.store.schema, table=str(table.name))


def on_spark(work: Work, strategy: Row, frames: Frames, persist: Persisted) -> DataFrame:
    """Over changes that the driver does not hold."""
    [rows], changed = frames.of(work)
    spark, table, changes = work.sessions.large, work.table, changed[0]
    before, after = (
        run(spark, table.stored_query, [changes.where(changes[KIND].isin(*kinds)).select(*rows.columns)])
        for kinds in (BEFORE, AFTER)
    )
    return diff_frame(before, after, table.store.schema)


def _apart(both: pa.Table, table: Table) -> tuple[pa.Table, pa.Table]:
    """The rows that go and those that come. Raises ConstraintViolated for the latter."""
    sides = both.column("_side")
    result = both.filter(pc.equal(sides, 1))
    check_violations(result, table)
    names = [n for n in both.column_names if n != "_side" and not n.startswith(VIOLATED)]
    return both.filter(pc.equal(sides, 0)).select(names), result.select(names)


def _both_sides(spark: SparkSession, table: Table, inputs: list[DataFrame]) -> DataFrame:
    """The query over two inputs, told apart by `_side`. FAIL constraints hold for the new rows."""
    from pyspark.sql import functions as F

    sides = [
        with_violations(run(spark, table.stored_query, [rows]), table.spec).withColumn("_side", F.lit(i))
        for i, rows in enumerate(inputs)
    ]
    return sides[0].unionAll(sides[1])
