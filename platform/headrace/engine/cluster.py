"""Refreshing a table for a large change: the same strategies as the driver's, as Spark plans."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING

from headrace.engine.diff import diff_frame, duplicate_key, net_frame
from headrace.engine.query import VIOLATED, run, with_violations
from headrace.engine.table import Delta, Table
from headrace.errors import ConstraintViolated
from headrace.planner.paths import Step
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
    changes = upstream.store.changelog.frame(spark, delta.after, delta.through, skip_backfill=skip_backfill)
    if net and delta.through - delta.after > 1:
        return net_frame(changes, upstream.store.schema)
    return changes.select(*upstream.store.schema.stored_names, KIND)


def semi_join(
    rows: DataFrame, columns: tuple[str, ...], keys: DataFrame, *, null_safe: bool | tuple[bool, ...]
) -> DataFrame:
    """Rows whose tuple of `columns` is among `keys` (a frame of as many columns, in order).

    Args:
        null_safe: whether NULL meets NULL, for all columns or for each.
    """
    from pyspark.sql import functions as F

    renamed = keys.toDF(*[f"_k{i}" for i in range(len(columns))]).distinct()
    safe = null_safe if isinstance(null_safe, tuple) else (null_safe,) * len(columns)
    terms = []
    for i, column in enumerate(columns):
        left, right = F.col(f"r.`{column}`"), F.col(f"k._k{i}")
        terms.append(left.eqNullSafe(right) if safe[i] else left == right)
    condition = reduce(lambda a, b: a & b, terms)
    return rows.alias("r").join(renamed.alias("k"), condition, "left_semi")


def row_changes(spark: SparkSession, table: Table, upstream: Table, changes: DataFrame) -> DataFrame:
    """ROW over a large change."""
    names = list(upstream.store.schema.names)
    old = run(spark, table.spec, [changes.where(changes[KIND].isin(UPDATE_BEFORE, DELETE)).select(*names)])
    new = run(spark, table.spec, [changes.where(changes[KIND].isin(UPDATE_AFTER, INSERT)).select(*names)])
    return diff_frame(old, new, table.store.schema)


def affected_changes(
    spark: SparkSession,
    table: Table,
    strategy: AffectedKeys | AffectedPartitions,
    current: Frames,
    changes: Frames,
) -> DataFrame:
    """AFFECTED_KEYS / AFFECTED_PARTITIONS over a large change.

    Args:
        current: upstream rows at the target cut.
        changes: changed rows by upstream; upstreams without a change are left out.
    """
    names = [r.upstream for r in table.spec.references]
    paths = {p.reference: p for p in strategy.paths}
    touched = []
    for index, name in enumerate(names):
        if name not in changes:
            continue
        rows = changes[name]  # type: ignore[index]
        for step in paths[index].steps if index != strategy.driving else ():
            rows = _follow(step, rows, names[step.to_reference], current, changes)  # type: ignore[arg-type]
        touched.append(rows.select(*strategy.trace))
    affected = reduce(lambda a, b: a.unionAll(b), touched).distinct().persist()
    restricted = {
        strategy.driving: semi_join(
            current[names[strategy.driving]],  # type: ignore[index]
            strategy.trace,
            affected,
            null_safe=True,
        )
    }
    for path in strategy.paths:  # a join finds its own rows: other leaves need no restriction here
        restricted[path.reference] = current[names[path.reference]]  # type: ignore[index]
    old = semi_join(table.store.frame(spark), strategy.columns, affected, null_safe=True)
    new = run(spark, table.spec, [restricted[i] for i in range(len(names))])
    return diff_frame(old, new, table.store.schema)


def _follow(step: Step, rows: DataFrame, name: TableName, current: Frames, changes: Frames) -> DataFrame:
    side = current[name]
    if name in changes:
        side = side.unionByName(changes[name].select(*side.columns))
    return semi_join(side, step.to_columns, rows.select(*step.from_columns), null_safe=step.null_safe)


def full_changes(spark: SparkSession, table: Table, current: list[DataFrame], *, empty: bool) -> DataFrame:
    """FULL: the whole query against the whole table.

    Args:
        current: upstream rows at the target cut, one frame per reference.
        empty: the table holds no rows yet, so nothing need be compared.
    """
    old = None if empty else table.store.frame(spark)
    return diff_frame(old, run(spark, table.spec, current), table.store.schema)


def check_changes(changes: DataFrame, table: Table) -> None:
    """Constraints and key uniqueness of the rows a large change brings. Raises ConstraintViolated."""
    from pyspark.sql import functions as F

    new = changes.where(F.col(KIND).isin(INSERT, UPDATE_AFTER))
    key = list(table.store.schema.key)
    twice = new.groupBy(*key).count().where("count > 1").limit(1).collect()
    if twice:
        raise duplicate_key(str(table.name), table.store.schema, tuple(twice[0][c] for c in key))
    marked = with_violations(new, table.spec)
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
