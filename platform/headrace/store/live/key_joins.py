"""Joins of rows in the driver, by the values of some columns. NULL meets NULL.

On Spark the same are `engine/rows/cells.py`'s `semi_join_frame` and the frames of `engine/rows/diff.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

KeySet = set[tuple[Any, ...]]

Keys: TypeAlias = KeySet | pa.Table
"""Values of some columns: tuples of them for a few, for many the rows of a table that has these columns."""


def tuples(table: pa.Table, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """Rows of the named columns as Python tuples, NULL as None."""
    return list(zip(*(table.column(c).to_pylist() for c in columns), strict=True)) if columns else []


def semi_join(table: pa.Table, columns: Sequence[str], keys: Keys) -> pa.Table:
    """Rows of `table` whose tuple of `columns` is one of `keys`, NULL-safe, in the order they have.

    Raises:
        ArrowInvalid: `keys` is a table with columns of types that Arrow does not join on.
    """
    if isinstance(keys, pa.Table):
        return _joined(table, columns, keys, "left semi")
    for position, column in enumerate(columns):  # a vectorised first cut
        wanted = pa.array({k[position] for k in keys}, table.schema.field(column).type)
        table = table.filter(pc.is_in(table.column(column), wanted))
    if len(columns) == 1:
        return table
    keep = [i for i, row in enumerate(tuples(table, columns)) if row in keys]
    return table.take(pa.array(keep, pa.int64())) if len(keep) < table.num_rows else table


def anti_join(table: pa.Table, columns: Sequence[str], keys: Keys) -> pa.Table:
    """Rows of `table` whose tuple of `columns` is none of `keys`: see `semi_join`."""
    if isinstance(keys, pa.Table):
        return _joined(table, columns, keys, "left anti")
    if not keys or not table.num_rows:
        return table
    # Python finds no NaN among others. Else the keys of many changes need not be made into columns.
    exact = not any(pa.types.is_floating(table.schema.field(c).type) for c in columns)
    if exact and table.num_rows <= len(keys):
        kept = [i for i, row in enumerate(tuples(table, columns)) if row not in keys]
        return table.take(pa.array(kept, pa.int64())) if len(kept) < table.num_rows else table
    suspects = None  # a vectorised first cut: most rows share no value with any key
    for position, column in enumerate(columns):
        wanted = pa.array({k[position] for k in keys}, table.schema.field(column).type)
        mask = pc.is_in(table.column(column), wanted)
        suspects = mask if suspects is None else pc.and_(suspects, mask)
    if len(columns) > 1:
        places = pc.indices_nonzero(suspects).to_pylist()
        rows = tuples(table.take(pa.array(places, pa.int64())), columns)
        gone = [p for p, row in zip(places, rows, strict=True) if row in keys]
        suspects = pc.is_in(pa.array(range(table.num_rows), pa.int64()), pa.array(gone, pa.int64()))
    return table.filter(pc.invert(suspects))


def _joined(table: pa.Table, columns: Sequence[str], keys: pa.Table, how: str) -> pa.Table:
    """By Arrow's hash join, for many keys."""
    left, right = _comparable(table.select(list(columns)), keys.select(list(columns)), columns)
    names = left.column_names
    left = left.append_column(_PLACE, pa.array(range(table.num_rows), pa.int64()))
    kept = left.join(right.group_by(names).aggregate([]), keys=names, join_type=how).column(_PLACE)
    return table.take(kept.combine_chunks().sort()) if len(kept) < table.num_rows else table


def is_unique(rows: pa.Table, columns: Sequence[str]) -> bool:
    """Whether no two rows have the same tuple of `columns`: NULL is one value. Not for floats."""
    return bool(rows.group_by(list(columns)).aggregate([]).num_rows == rows.num_rows)


def pairs(left: pa.Table, right: pa.Table, columns: Sequence[str]) -> tuple[pa.Array, pa.Array]:
    """Which row of one table has the key of which of the other: indices, NULL where there is none.

    Each table has a key once.
    """
    one, other = _comparable(left.select(list(columns)), right.select(list(columns)), columns)
    names = one.column_names
    one = one.append_column("_left", pa.array(range(left.num_rows), pa.int64()))
    other = other.append_column("_right", pa.array(range(right.num_rows), pa.int64()))
    found = one.join(other, keys=names, join_type="full outer").combine_chunks()
    order = pc.sort_indices(found, sort_keys=[("_left", "ascending"), ("_right", "ascending")])
    found = found.take(order)
    return found.column("_left").combine_chunks(), found.column("_right").combine_chunks()


def _comparable(left: pa.Table, right: pa.Table, columns: Sequence[str]) -> tuple[pa.Table, pa.Table]:
    """Both with columns by which Arrow's joins, where NULL never meets anything, compare as NULL-safe."""
    for name in columns:
        left, right = _without_nulls(left, right, name)
    return left, right


_PLACE = "_place"


def _without_nulls(left: pa.Table, right: pa.Table, name: str) -> tuple[pa.Table, pa.Table]:
    """Where one of the columns has NULLs: flags beside them, and in their place some value of the column."""
    sides = (left, right)
    if not any(side.column(name).null_count for side in sides):
        return left, right
    some = next((v for side in sides for v in side.column(name).drop_null().slice(0, 1)), None)
    flagged = []
    for side in sides:
        column = side.column(name)
        side = side.append_column(f"_null_{name}", pc.is_null(column))
        place = side.schema.get_field_index(name)
        if some is None:
            flagged.append(side.remove_column(place))
        else:
            flagged.append(side.set_column(place, name, pc.fill_null(column, some)))
    return flagged[0], flagged[1]
