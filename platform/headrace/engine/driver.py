"""Refreshing a table for a small change: rows are looked up in the driver, Spark runs only the SQL.

A change of a few rows costs a few look-ups and one local query, whatever the table's size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from headrace.engine.diff import diff_local
from headrace.engine.query import VIOLATED, local, run, used_columns, with_violations
from headrace.engine.table import Delta, Table
from headrace.errors import ConstraintViolated
from headrace.planner.paths import Path, Step
from headrace.planner.strategies import AffectedKeys, AffectedPartitions
from headrace.spec.model import TableName
from headrace.store.lookup import KeySet, semi_join, tuples
from headrace.store.schema import DELETE, INSERT, KIND, UPDATE_AFTER, UPDATE_BEFORE
from headrace.store.tables import Head

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
    old = local(spark, images(delta.rows, UPDATE_BEFORE, DELETE), columns)
    new = local(spark, images(delta.rows, UPDATE_AFTER, INSERT), columns)
    before, after = run_pair(spark, table, [old], [new])
    return diff_local(before, after, table.store.schema, table=str(table.name))


def run_pair(
    spark: SparkSession, table: Table, old: list[DataFrame], new: list[DataFrame]
) -> tuple[pa.Table, pa.Table]:
    """The query over two inputs in one Spark job. FAIL constraints hold for the new rows."""
    from pyspark.sql import functions as F

    before = with_violations(run(spark, table.spec, old), table.spec).withColumn("_side", F.lit(0))
    after = with_violations(run(spark, table.spec, new), table.spec).withColumn("_side", F.lit(1))
    both = before.unionAll(after).toArrow()
    sides = both.column("_side")
    result = both.filter(pc.equal(sides, 1))
    check_violations(result, table)
    names = [n for n in both.column_names if n != "_side" and not n.startswith(VIOLATED)]
    return both.filter(pc.equal(sides, 0)).select(names), result.select(names)


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


class TooLarge(Exception):
    """The rows a change touches do not fit the driver; the caller lets Spark do it."""


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
        TooLarge: more than `ROWS_LIMIT` rows would come to the driver.
    """
    names = [r.upstream for r in table.spec.references]
    affected = _affected(table, strategy, heads, deltas)
    schema = table.store.schema
    old = table.store.head().find(strategy.columns, affected)
    restricted = _restrict(strategy, [heads[n] for n in names], affected)  # type: ignore[index]
    if old.num_rows > ROWS_LIMIT or any(r.num_rows > INPUT_LIMIT for r in restricted.values()):
        raise TooLarge
    schemas = [upstreams[n].store.schema for n in names]  # type: ignore[index]
    inputs = [local(spark, restricted[i], used_columns(table.spec, s.columns)) for i, s in enumerate(schemas)]
    result = with_violations(run(spark, table.spec, inputs), table.spec).toArrow()
    check_violations(result, table)
    return diff_local(old, result, schema, table=str(table.name))


def _affected(
    table: Table,
    strategy: AffectedKeys | AffectedPartitions,
    heads: Heads,
    deltas: Mapping[TableName, Delta],
) -> KeySet:
    """Values of K in every driving row that the changes can touch, in old and new images."""
    references = table.spec.references
    paths = {p.reference: p for p in strategy.paths}
    affected: KeySet = set()
    for index, reference in enumerate(references):
        delta = deltas.get(reference.upstream)  # type: ignore[arg-type]
        if delta is None or delta.rows is None or not delta.rows.num_rows:
            continue
        rows = delta.rows
        if index != strategy.driving:
            rows = _walk(paths[index], rows, table, heads, deltas)
        affected.update(tuples(rows, strategy.trace))
    return affected


def _walk(
    path: Path, rows: pa.Table, table: Table, heads: Heads, deltas: Mapping[TableName, Delta]
) -> pa.Table:
    for step in path.steps:
        name = table.spec.references[step.to_reference].upstream
        values = _join_values(rows, step)
        found = heads[name].find(step.to_columns, values)  # type: ignore[index]
        if found.num_rows > INPUT_LIMIT:
            raise TooLarge
        parts = [found]
        delta = deltas.get(name)  # type: ignore[arg-type]
        if delta is not None and delta.rows is not None:
            parts.append(semi_join(delta.rows.select(found.column_names), step.to_columns, values))
        rows = pa.concat_tables(parts)
    return rows


def _join_values(rows: pa.Table, step: Step) -> KeySet:
    """The values that rows on the other side must have; `=` never matches NULL."""
    values = set(tuples(rows, step.from_columns))
    return {
        v for v in values if all(x is not None or safe for x, safe in zip(v, step.null_safe, strict=True))
    }


def _restrict(
    strategy: AffectedKeys | AffectedPartitions, heads: list[Head], affected: KeySet
) -> dict[int, pa.Table]:
    """New rows of every leaf that can meet a touched driving row."""
    restricted = {strategy.driving: heads[strategy.driving].find(strategy.trace, affected)}
    for path in sorted(strategy.paths, key=lambda p: len(p.steps)):
        back = path.steps[0].reversed()
        values = _join_values(restricted[back.from_reference], back)
        restricted[path.reference] = heads[path.reference].find(back.to_columns, values)
    return restricted
