"""The net change between a table's old and new rows: only what differs, at most one change per key."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import ConstraintViolated
from headrace.store.live.lookup import pairs, tuples
from headrace.store.schema import (
    DELETE,
    INSERT,
    KIND,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    VERSION,
    TableSchema,
    arrow_schema,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NAN = object()


def _comparable(value: Any) -> Any:
    """The value as Spark's `<=>` tells it apart: NaN is itself, also inside a row, an array or a struct."""
    if isinstance(value, float):
        return _NAN if math.isnan(value) else value
    if isinstance(value, list | tuple):
        return [_comparable(v) for v in value]
    return {k: _comparable(v) for k, v in value.items()} if isinstance(value, dict) else value


def diff_local(old: pa.Table, new: pa.Table, schema: TableSchema, *, table: str) -> pa.Table:
    """Changes that turn `old` into `new`, in the driver.

    Args:
        old, new: stored columns, any order.
    Returns:
        Stored columns and `_kind`.
    Raises:
        ConstraintViolated: two new rows share a primary key.
    """
    names = list(schema.stored_names)
    arrow = arrow_schema(schema.stored)
    image = tuple if schema.comparable else _comparable
    old, new = old.select(names).cast(arrow), new.select(names).cast(arrow)
    before = dict(zip(tuples(old, schema.key), enumerate(tuples(old, names)), strict=True))
    after: dict[tuple[Any, ...], tuple[int, tuple[Any, ...]]] = {}
    for index, (key, row) in enumerate(zip(tuples(new, schema.key), tuples(new, names), strict=True)):
        if key in after:
            raise duplicate_key(table, schema, key)
        after[key] = (index, row)
    picks: dict[str, list[int]] = {INSERT: [], UPDATE_BEFORE: [], UPDATE_AFTER: [], DELETE: []}
    for key, (index, row) in after.items():
        was = before.get(key)
        if was is None:
            picks[INSERT].append(index)
        elif image(was[1]) != image(row):
            picks[UPDATE_BEFORE].append(was[0])
            picks[UPDATE_AFTER].append(index)
    picks[DELETE] = [index for key, (index, _) in before.items() if key not in after]
    parts = []
    for kind, side in ((UPDATE_BEFORE, old), (UPDATE_AFTER, new), (INSERT, new), (DELETE, old)):
        rows = side.take(pa.array(picks[kind], pa.int64()))
        parts.append(rows.append_column(KIND, pa.array([kind] * rows.num_rows, pa.string())))
    return pa.concat_tables(parts)


def diff_many(old: pa.Table, new: pa.Table, schema: TableSchema) -> pa.Table:
    """As `diff_local`, vectorised, for tables whose columns Arrow compares (`schema.comparable`).

    No two rows of one side share a key.
    """
    names = list(schema.stored_names)
    arrow = arrow_schema(schema.stored)
    old, new = old.select(names).cast(arrow), new.select(names).cast(arrow)
    before, after = pairs(old, new, schema.key)
    both = pc.and_(pc.is_valid(before), pc.is_valid(after))
    left, right = old.take(before.filter(both)), new.take(after.filter(both))
    differs = pa.chunked_array([pa.repeat(False, left.num_rows)])
    for name in names:
        a, b = left.column(name), right.column(name)
        unequal = pc.fill_null(pc.not_equal(a, b), pc.xor(pc.is_null(a), pc.is_null(b)))
        differs = pc.or_(differs, unequal)
    parts = [
        (UPDATE_BEFORE, left.filter(differs)),
        (UPDATE_AFTER, right.filter(differs)),
        (INSERT, new.take(after.filter(pc.is_null(before)))),
        (DELETE, old.take(before.filter(pc.is_null(after)))),
    ]
    return pa.concat_tables(
        [rows.append_column(KIND, pa.repeat(pa.scalar(kind), rows.num_rows)) for kind, rows in parts]
    )


_BEFORE = (UPDATE_BEFORE, DELETE)


def net_local(changes: pa.Table, schema: TableSchema) -> pa.Table:
    """Fold changes of several versions, in version order, to one net change per key.

    Args:
        changes: logged columns, ascending by version.
    Returns:
        Stored columns and `_kind`; keys that end as they began are gone.
    """
    first: dict[tuple[Any, ...], tuple[int, list[int]]] = {}
    last: dict[tuple[Any, ...], tuple[int, list[int]]] = {}
    kinds, versions = changes.column(KIND).to_pylist(), changes.column(VERSION).to_pylist()
    for index, key in enumerate(tuples(changes, schema.key)):
        before = kinds[index] in _BEFORE
        began = first.setdefault(key, (versions[index], []))
        if versions[index] == began[0] and before:
            began[1].append(index)
        if key not in last or last[key][0] < versions[index]:
            last[key] = (versions[index], [])
        if not before:
            last[key][1].append(index)
    stored = changes.select(list(schema.stored_names))
    old = [i for _, indexes in first.values() for i in indexes[:1]]
    new = [i for _, indexes in last.values() for i in indexes[:1]]
    return diff_local(
        stored.take(pa.array(old, pa.int64())), stored.take(pa.array(new, pa.int64())), schema, table=""
    )


def net_frame(changes: DataFrame, schema: TableSchema) -> DataFrame:
    """As `net_local`, as a Spark plan over logged columns."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    by_key = Window.partitionBy(*schema.key)
    marked = changes.withColumn("_first", F.min(VERSION).over(by_key)).withColumn(
        "_last", F.max(VERSION).over(by_key)
    )
    before = F.col(KIND).isin(*_BEFORE)
    old = marked.where(before & (F.col(VERSION) == F.col("_first"))).select(*schema.stored_names)
    new = marked.where(~before & (F.col(VERSION) == F.col("_last"))).select(*schema.stored_names)
    return diff_frame(old, new, schema)


def duplicate_key(table: str, schema: TableSchema, key: tuple[Any, ...]) -> ConstraintViolated:
    named = ", ".join(f"{c}={v!r}" for c, v in zip(schema.key, key, strict=True))
    return ConstraintViolated(
        f"`{table}`: two rows share the primary key ({named}). Its query must give one row per key. "
        f"Next: correct PRIMARY KEY or the query, then `headrace resume {table}`"
    )


def check_unique(rows: pa.Table, schema: TableSchema, *, table: str) -> None:
    """Raises ConstraintViolated where two rows share a primary key."""
    keys = rows.select(list(schema.key)).append_column("_one", pa.array([1] * rows.num_rows, pa.int8()))
    grouped = keys.group_by(list(schema.key)).aggregate([("_one", "count")])
    if grouped.num_rows < rows.num_rows:
        twice = grouped.filter(pc.greater(grouped.column("_one_count"), 1))
        raise duplicate_key(table, schema, tuples(twice, schema.key)[0])


def counted(column: pa.ChunkedArray) -> Counter[str]:
    """How often each value of the column stands there."""
    found = column.value_counts()
    return Counter(
        dict(zip(found.field("values").to_pylist(), found.field("counts").to_pylist(), strict=True))
    )


def count_kinds(changes: pa.Table | DataFrame) -> Counter[str]:
    """Number of change rows by kind. One Spark job where the rows are Spark's."""
    if isinstance(changes, pa.Table):
        return counted(changes.column(KIND))
    return Counter({row[KIND]: row["count"] for row in changes.groupBy(KIND).count().collect()})


def diff_frame(
    old: DataFrame | None, new: DataFrame, schema: TableSchema, *, upsert: bool = False
) -> DataFrame:
    """As `diff_local`, as a Spark plan. `old` is None where the table is empty.

    Args:
        upsert: old rows without a new one of their key stay: `old` may be the whole table.
    """
    from pyspark.sql import functions as F

    names = list(schema.stored_names)
    if old is None:
        return new.select(*names).withColumn(KIND, F.lit(INSERT))
    left = old.select(F.struct(*names).alias("o"))
    right = new.select(F.struct(*names).alias("n"))
    condition = F.lit(True)
    for column in schema.key:
        condition = condition & F.col(f"o.{column}").eqNullSafe(F.col(f"n.{column}"))
    how = "right_outer" if upsert else "full_outer"
    joined = left.join(right, condition, how).where(~F.col("o").eqNullSafe(F.col("n")))
    pairs = joined.selectExpr(
        f"explode(array(struct(CASE WHEN n IS NULL THEN '{DELETE}' ELSE '{UPDATE_BEFORE}' END AS k, o AS r),"
        f" struct(CASE WHEN o IS NULL THEN '{INSERT}' ELSE '{UPDATE_AFTER}' END AS k, n AS r))) AS x"
    )
    return pairs.where("x.r IS NOT NULL").selectExpr("x.r.*", f"x.k AS {KIND}")
