"""Refreshing a table for a small change: rows are looked up in the driver, Spark runs only the SQL.

A change of a few rows costs a few look-ups and one local query, whatever the table's size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from headrace.engine.rows.cells import TooLarge, alike, restricted, touched_cells
from headrace.engine.rows.diff import check_unique, diff_local, diff_many
from headrace.engine.spark.query import VIOLATED, run, used_columns, with_violations
from headrace.engine.table.table import Delta, Table
from headrace.errors import ConstraintViolated
from headrace.planner.strategies import AffectedKeys, AffectedPartitions
from headrace.spec.model import TableName, TableSpec
from headrace.store.frames import local
from headrace.store.live.head import Head
from headrace.store.live.lookup import KeySet, semi_join
from headrace.store.schema import DELETE, INSERT, KIND, UPDATE_AFTER, UPDATE_BEFORE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Heads = Mapping[TableName, Head]


def images(changes: pa.Table, *kinds: str) -> pa.Table:
    """The rows of `changes` of these kinds."""
    return changes.filter(pc.is_in(changes.column(KIND), pa.array(kinds, pa.string())))


def row_changes(spark: SparkSession, table: Table, upstream: Table, delta: Delta) -> pa.Table:
    """ROW: the query over the old images gives the rows that go, over the new images those that come."""
    assert delta.rows is not None
    columns = upstream.store.schema.columns
    inputs = [
        (images(delta.rows, UPDATE_BEFORE, DELETE), columns),
        (images(delta.rows, UPDATE_AFTER, INSERT), columns),
    ]
    both = table.queries.run(spark, "row", inputs, partial(_both_sides, spark, table))
    before, after = _apart(both, table)
    return diff_local(before, after, table.store.schema, table=str(table.name))


def row_changes_of_many(spark: SparkSession, table: Table, upstream: Table, delta: Delta) -> pa.Table:
    """As `row_changes`, for more rows than plans are kept for; `schema.joinable` and `comparable` hold."""
    assert delta.rows is not None
    schema, columns = table.store.schema, upstream.store.schema.columns
    inputs = [
        local(spark, images(delta.rows, *kinds), columns)
        for kinds in ((UPDATE_BEFORE, DELETE), (UPDATE_AFTER, INSERT))
    ]
    before, after = _apart(_both_sides(spark, table, inputs).toArrow(), table)
    check_unique(after, schema, table=str(table.name))
    return diff_many(before, after, schema)


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


def check_violations(result: pa.Table, table: Table) -> None:
    """Raises ConstraintViolated where a row breaks a FAIL constraint."""
    for position, constraint in enumerate(table.spec.constraints):
        column = f"{VIOLATED}{position}"
        if column not in result.column_names:
            continue
        broken = result.filter(result.column(column))
        if broken.num_rows:
            shown = {c: broken.column(c)[0].as_py() for c in table.store.schema.key}
            raise ConstraintViolated(
                f"{constraint.location}: `{table.name}`: {broken.num_rows} rows break constraint "
                f"`{constraint.name}` EXPECT ({constraint.expression}), the first with key {shown}; nothing "
                "was committed. Next: correct the data or the constraint, then "
                f"`headrace resume {table.name}`"
            )


ROWS_LIMIT = 50_000
"""Rows of the table itself that the driver compares; more are worth a distributed job."""

INPUT_LIMIT = 500_000
"""Upstream rows that the driver hands to a local query."""


def affected_changes(
    spark: SparkSession,
    table: Table,
    strategy: AffectedKeys | AffectedPartitions,
    upstreams: Mapping[TableName, Table],
    heads: Heads,
    deltas: Mapping[TableName, Delta],
) -> pa.Table:
    """AFFECTED_KEYS / AFFECTED_PARTITIONS: run the same SQL for what the change can touch.

    Raises:
        TooLarge: more rows than the limits would come to the driver, or columns that are followed do not
            compare in Python as in Spark.
        TooWide: the change can touch any row.
    """
    spec = table.stored_query
    affected, result = affected_rows(spark, table, "affected", spec, strategy, upstreams, heads, deltas)
    old = table.store.head().find(strategy.columns, affected)
    if old.num_rows > ROWS_LIMIT:
        raise TooLarge
    check_violations(result, table)
    return diff_local(old, result, table.store.schema, table=str(table.name))


def affected_rows(
    spark: SparkSession,
    table: Table,
    purpose: str,
    spec: TableSpec,
    strategy: AffectedKeys | AffectedPartitions,
    upstreams: Mapping[TableName, Table],
    heads: Heads,
    deltas: Mapping[TableName, Delta],
) -> tuple[KeySet, pa.Table]:
    """The cells that the change touches, and what the query of `spec` gives for them.

    Args:
        purpose: a name for `spec` among the table's queries.
    Raises:
        TooLarge, TooWide: see `affected_changes`.
    """
    names = [r.upstream for r in table.spec.references]
    schemas = [upstreams[n].store.schema for n in names]  # type: ignore[index]
    if not alike(strategy.cells, schemas):
        raise TooLarge
    changes = {
        i: deltas[n].rows  # type: ignore[index]
        for i, n in enumerate(names)
        if n in deltas and deltas[n].rows is not None and deltas[n].count  # type: ignore[index]
    }
    now = [heads[n] for n in names]  # type: ignore[index]
    affected = touched_cells(strategy.cells, changes, Rows(now, changes))
    found = restricted(strategy.cells, Rows(now), affected)
    inputs = [(found[i], used_columns(spec, s.columns)) for i, s in enumerate(schemas)]
    return affected, table.queries.run(
        spark, purpose, inputs, lambda frames: with_violations(run(spark, spec, frames), spec)
    )


class Rows:
    """The rows of a query's leaves at their heads, with `changes` also those that changed, old and new."""

    def __init__(self, heads: Sequence[Head], changes: Mapping[int, pa.Table] | None = None) -> None:
        self._heads = heads
        self._changes = changes or {}

    def find(self, reference: int, columns: Sequence[str], keys: KeySet) -> pa.Table:
        found = self._heads[reference].find(columns, keys)
        if reference in self._changes:
            changed = self._changes[reference].select(found.column_names)
            found = pa.concat_tables([found, semi_join(changed, columns, keys)])
        return self._fitting(found)

    def read(self, reference: int) -> pa.Table:
        if self._heads[reference].index.count(None) > INPUT_LIMIT:
            raise TooLarge
        return self._fitting(self._heads[reference].read())

    def _fitting(self, rows: pa.Table) -> pa.Table:
        if rows.num_rows > INPUT_LIMIT:
            raise TooLarge
        return rows
