"""Refreshing a table for a large change: the same strategies as the driver's, as Spark plans."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING

from headrace.engine.rows.cells import TooWide
from headrace.engine.rows.diff import diff_frame, duplicate_key, net_frame
from headrace.engine.spark.persisted import Persisted
from headrace.engine.spark.query import VIOLATED, run, with_violations
from headrace.engine.table.table import Delta, Table
from headrace.errors import ConstraintViolated
from headrace.planner.cells.cells import Cells
from headrace.planner.cells.paths import Step
from headrace.planner.strategies import AffectedKeys, AffectedPartitions
from headrace.spec.model import TableName
from headrace.store.schema import DELETE, INSERT, KIND, UPDATE_AFTER, UPDATE_BEFORE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Frames = Mapping[TableName, "DataFrame"]


def delta_frame(
    spark: SparkSession, upstream: Table, delta: Delta, *, skip_backfill: bool, net: bool
) -> DataFrame:
    """A change as a Spark frame (stored columns and `_kind`), read back from the changelog.

    Args:
        net: one change per key, as ROW needs it.
    """
    changes = upstream.store.changelog.frame(
        spark, delta.after, delta.through, skip_backfill=skip_backfill, live=True
    )
    if net and delta.through - delta.after > 1:
        return net_frame(changes, upstream.store.schema)
    return changes.select(*upstream.store.schema.stored_names, KIND)


def semi_join(
    rows: DataFrame,
    columns: tuple[str, ...],
    keys: DataFrame,
    *,
    null_safe: bool | tuple[bool, ...],
    how: str = "left_semi",
) -> DataFrame:
    """Rows whose tuple of `columns` is among `keys` (a frame of as many columns, in order).

    Args:
        null_safe: whether NULL meets NULL, for all columns or for each.
        how: `left_anti` for those that are not among them.
    """
    from pyspark.sql import functions as F

    renamed = keys.toDF(*[f"_k{i}" for i in range(len(columns))]).distinct()
    safe = null_safe if isinstance(null_safe, tuple) else (null_safe,) * len(columns)
    terms = []
    for i, column in enumerate(columns):
        left, right = F.col(f"r.`{column}`"), F.col(f"k._k{i}")
        terms.append(left.eqNullSafe(right) if safe[i] else left == right)
    condition = reduce(lambda a, b: a & b, terms)
    return rows.alias("r").join(renamed.alias("k"), condition, how)


def row_changes(spark: SparkSession, table: Table, upstream: Table, changes: DataFrame) -> DataFrame:
    """ROW over a large change."""
    names = list(upstream.store.schema.names)
    old = run(
        spark, table.stored_query, [changes.where(changes[KIND].isin(UPDATE_BEFORE, DELETE)).select(*names)]
    )
    new = run(
        spark, table.stored_query, [changes.where(changes[KIND].isin(UPDATE_AFTER, INSERT)).select(*names)]
    )
    return diff_frame(old, new, table.store.schema)


def affected_changes(
    spark: SparkSession,
    table: Table,
    strategy: AffectedKeys | AffectedPartitions,
    current: Frames,
    changes: Frames,
    persist: Persisted,
) -> DataFrame:
    """AFFECTED_KEYS / AFFECTED_PARTITIONS over a large change.

    Args:
        current: upstream rows at the target cut.
        changes: changed rows by upstream; upstreams without a change are left out.
    Raises:
        TooWide: the change can touch any row.
    """
    names = [r.upstream for r in table.spec.references]
    rows_now = [current[n] for n in names]  # type: ignore[index]
    changed = {i: changes[n] for i, n in enumerate(names) if n in changes}  # type: ignore[index]
    affected = persist(touched_cells(strategy.cells, rows_now, changed))
    inputs = restricted(strategy.cells, rows_now, affected)
    old = semi_join(table.store.frame(spark), strategy.columns, affected, null_safe=True)
    return diff_frame(old, run(spark, table.stored_query, inputs), table.store.schema)


def restricted(cells: Cells, rows: list[DataFrame], affected: DataFrame) -> list[DataFrame]:
    """The leaves that hold cells restricted to these; free ones stay whole: a join finds its own rows."""
    inputs = list(rows)
    for reference, columns in cells.leaves:
        inputs[reference] = semi_join(rows[reference], columns, affected, null_safe=True)
    return inputs


def touched_cells(cells: Cells, current: list[DataFrame], changes: Mapping[int, DataFrame]) -> DataFrame:
    """As `touched.touched_cells`, as a Spark plan."""
    if any(reference in changes for reference in cells.global_leaves):
        raise TooWide("a table changed whose every row may matter to every row of the result")
    found = [changes[r].select(*columns) for r, columns in cells.leaves if r in changes]
    for path in cells.paths:
        if path.reference not in changes:
            continue
        rows = changes[path.reference]
        for step in path.steps:
            rows = _follow(step, rows, current[step.to_reference], changes.get(step.to_reference))
        found.append(rows.select(*cells.partitioned[path.steps[-1].to_reference]))
    return reduce(lambda a, b: a.unionAll(b), found).distinct()


def _follow(step: Step, rows: DataFrame, side: DataFrame, changes: DataFrame | None) -> DataFrame:
    from pyspark.sql import functions as F

    if changes is not None:
        side = side.unionByName(changes.select(*side.columns))
    found = semi_join(side, step.to_columns, rows.select(*step.from_columns), null_safe=step.null_safe)
    if not step.null_aware:
        return found
    (start,), (end,) = step.from_columns, step.to_columns
    if not rows.where(F.col(f"`{start}`").isNull()).isEmpty():
        raise TooWide(f"NOT IN meets a NULL in `{start}`")
    return found.unionAll(side.where(F.col(f"`{end}`").isNull()))


def full_changes(spark: SparkSession, table: Table, current: list[DataFrame], *, empty: bool) -> DataFrame:
    """FULL: the whole query against the whole table.

    Args:
        current: upstream rows at the target cut, one frame per reference.
        empty: the table holds no rows yet, so nothing need be compared.
    """
    old = None if empty else table.store.frame(spark)
    return diff_frame(old, run(spark, table.stored_query, current), table.store.schema)


def check_changes(changes: DataFrame, table: Table) -> None:
    """Constraints and key uniqueness of the rows a large change brings. Raises ConstraintViolated."""
    from pyspark.sql import functions as F

    new = changes.where(F.col(KIND).isin(INSERT, UPDATE_AFTER))
    key = list(table.store.schema.key)
    twice = new.groupBy(*key).count().where("count > 1").limit(1).collect()
    if twice:
        raise duplicate_key(str(table.name), table.store.schema, tuple(twice[0][c] for c in key))
    check_constraints(changes, table)


def check_constraints(changes: DataFrame, table: Table) -> None:
    """FAIL constraints of the rows a large change brings. Raises ConstraintViolated."""
    from pyspark.sql import functions as F

    key = list(table.store.schema.key)
    marked = with_violations(changes.where(F.col(KIND).isin(INSERT, UPDATE_AFTER)), table.spec)
    for position, constraint in enumerate(table.spec.constraints):
        column = f"{VIOLATED}{position}"
        if column not in marked.columns:
            continue
        broken = marked.where(F.col(column)).limit(1).collect()
        if broken:
            shown = {c: broken[0][c] for c in key}
            raise ConstraintViolated(
                f"{constraint.location}: `{table.name}`: rows break constraint `{constraint.name}` EXPECT "
                f"({constraint.expression}), one with key {shown}; nothing was committed. "
                f"Next: correct the data or the constraint, then `headrace resume {table.name}`"
            )
