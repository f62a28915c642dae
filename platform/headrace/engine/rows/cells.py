"""Following a change to the cells it touches, and the rows of those cells: in the driver, and on Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from headrace.planner.cells.cells import Cells
from headrace.planner.cells.paths import Step
from headrace.planner.sql.joins import comparable
from headrace.store.live.key_joins import KeySet, tuples
from headrace.store.schema import TableSchema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class TooLarge(Exception):
    """The rows a change touches do not fit the driver; the caller lets Spark do it."""


class TooWide(Exception):
    """The change can touch any row of the table: the whole query has to run. The text says why."""


class Leaves(Protocol):
    """Rows of a query's leaves, by their place in `TableSpec.references`, all stored columns."""

    def find(self, reference: int, columns: Sequence[str], keys: KeySet) -> pa.Table:
        """Rows whose tuple of `columns` is one of `keys`, NULL-safe."""

    def read(self, reference: int) -> pa.Table:
        """All rows."""


def touched_cells(cells: Cells, changes: Mapping[int, pa.Table], leaves: Leaves) -> KeySet:
    """The cells that changed rows lead to.

    Args:
        changes: by reference the changed rows, old and new images; references without a change are left out.
        leaves: the rows now, and those that have gone: whatever stood beside a changed row before or after.
    Raises:
        TooWide: a global leaf has changed, or NOT IN met a NULL.
    """
    partitioned, found = cells.partitioned, set[tuple[object, ...]]()
    for reference in cells.global_leaves:
        if reference in changes:
            raise TooWide("a table changed whose every row may matter to every row of the result")
    for reference, columns in cells.leaves:
        if reference in changes:
            found.update(tuples(changes[reference], columns))
    for path in cells.paths:
        if path.reference not in changes:
            continue
        rows = changes[path.reference]
        for step in path.steps:
            rows = leaves.find(step.to_reference, step.to_columns, _forward(step, rows))
        found.update(tuples(rows, partitioned[path.steps[-1].to_reference]))
    return found


def restricted(cells: Cells, leaves: Leaves, affected: KeySet) -> dict[int, pa.Table]:
    """The rows of every leaf that the cells `affected` can need."""
    found = {r: leaves.find(r, columns, affected) for r, columns in cells.leaves}
    found |= {r: leaves.read(r) for r in cells.global_leaves}
    for path in cells.paths:  # of a leaf with several paths the last comes after all that it meets
        ways = [p.steps[0].reversed() for p in cells.paths if p.reference == path.reference]
        if path.reference in found or any(w.from_reference not in found for w in ways):
            continue
        values = set[tuple[object, ...]]()
        for way in ways:
            values |= _values(way, found[way.from_reference])
        if ways[0].null_aware and (None,) in values:
            found[path.reference] = leaves.read(path.reference)  # a NULL in NOT IN: is there any row?
        else:
            wanted = values | {(None,)} if ways[0].null_aware else values
            found[path.reference] = leaves.find(path.reference, ways[0].to_columns, wanted)
    return found


def _forward(step: Step, rows: pa.Table) -> KeySet:
    """The values of `to_columns` in rows that `rows` meet."""
    values = _values(step, rows)
    if not step.null_aware:
        return values
    if (None,) in values:
        raise TooWide(f"NOT IN meets a NULL in `{step.from_columns[0]}`")
    return values | {(None,)} if values else values


def _values(step: Step, rows: pa.Table) -> KeySet:
    """The values of `from_columns`; `=` never matches NULL."""
    keep = [safe or step.null_aware for safe in step.null_safe]
    return {
        v
        for v in set(tuples(rows, step.from_columns))
        if all(x is not None or kept for x, kept in zip(v, keep, strict=True))
    }


def alike(cells: Cells, schemas: Sequence[TableSchema]) -> bool:
    """Whether Python's equality is that of every `=` that `cells` follows: both sides of one type, no float.

    Args:
        schemas: of the table's references.
    """
    types = [{name.lower(): kind for name, kind in schema.stored} for schema in schemas]
    for step in {s for p in cells.paths for s in p.steps}:
        for start, end in zip(step.from_columns, step.to_columns, strict=True):
            kind = types[step.from_reference][start.lower()]
            if kind != types[step.to_reference][end.lower()] or not comparable(kind):
                return False
    return all(comparable(types[r][c.lower()]) for r, columns in cells.leaves for c in columns)


def touched_cells_frame(
    cells: Cells, current: list[DataFrame], changes: Mapping[int, DataFrame]
) -> DataFrame:
    """As `touched_cells`, as a Spark plan."""
    if any(reference in changes for reference in cells.global_leaves):
        raise TooWide("a table changed whose every row may matter to every row of the result")
    found = [changes[r].select(*columns) for r, columns in cells.leaves if r in changes]
    for path in cells.paths:
        if path.reference not in changes:
            continue
        rows = changes[path.reference]
        for step in path.steps:
            rows = _follow_frame(step, rows, current[step.to_reference], changes.get(step.to_reference))
        found.append(rows.select(*cells.partitioned[path.steps[-1].to_reference]))
    return reduce(lambda a, b: a.unionAll(b), found).distinct()


def _follow_frame(step: Step, rows: DataFrame, side: DataFrame, changes: DataFrame | None) -> DataFrame:
    from pyspark.sql import functions as F

    if changes is not None:
        side = side.unionByName(changes.select(*side.columns))
    found = semi_join_frame(side, step.to_columns, rows.select(*step.from_columns), null_safe=step.null_safe)
    if not step.null_aware:
        return found
    (start,), (end,) = step.from_columns, step.to_columns
    if not rows.where(F.col(f"`{start}`").isNull()).isEmpty():
        raise TooWide(f"NOT IN meets a NULL in `{start}`")
    return found.unionAll(side.where(F.col(f"`{end}`").isNull()))


def restricted_frame(cells: Cells, rows: list[DataFrame], affected: DataFrame) -> list[DataFrame]:
    """The leaves that hold cells restricted to these; free ones stay whole: a join finds its own rows."""
    inputs = list(rows)
    for reference, columns in cells.leaves:
        inputs[reference] = semi_join_frame(rows[reference], columns, affected, null_safe=True)
    return inputs


def semi_join_frame(
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
