"""The net change between a table's old and new rows: only what differs, at most one change per key."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import ConstraintViolated
from headrace.store.live.key_joins import pairs, tuples
from headrace.store.schema import (
    DELETE,
    INSERT,
    KIND,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    VERSION,
    TableSchema,
    arrow_schema,
    conform,
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


FEW_COMPARED, FEW_FOLDED = 200, 2_000
"""Rows up to which Python's tuples and dictionaries take less time than Arrow's joins: see `bench rows`."""

_BEFORE = (UPDATE_BEFORE, DELETE)

Picks = dict[str, pa.Array]
"""By kind of change the places of rows: of the old ones for `-U` and `-D`, else of the new ones."""


def diff(old: pa.Table, new: pa.Table, schema: TableSchema, *, table: str) -> pa.Table:
    """Changes that turn `old` into `new`, in the driver.

    Args:
        old, new: stored columns, any order. No two old rows share a key.
    Returns:
        Stored columns and `_kind`.
    Raises:
        ConstraintViolated: two new rows share a primary key.
    """
    arrow = arrow_schema(schema.stored)
    old, new = conform(old, arrow), conform(new, arrow)
    few = old.num_rows + new.num_rows <= FEW_COMPARED or not schema.joinable
    pick = _differing_few if few else _differing
    parts = []
    for kind, places in pick(old, new, schema, table).items():
        rows = (old if kind in _BEFORE else new).take(places)
        parts.append(rows.append_column(KIND, pa.repeat(pa.scalar(kind), rows.num_rows)))
    return pa.concat_tables(parts)


def _differing_few(old: pa.Table, new: pa.Table, schema: TableSchema, table: str) -> Picks:
    names = schema.stored_names
    image = tuple if schema.comparable else _comparable
    before = dict(zip(tuples(old, schema.key), enumerate(tuples(old, names)), strict=True))
    after: dict[tuple[Any, ...], tuple[int, tuple[Any, ...]]] = {}
    for index, (key, row) in enumerate(zip(tuples(new, schema.key), tuples(new, names), strict=True)):
        if key in after:
            raise duplicate_key(table, schema, key)
        after[key] = (index, row)
    picks: dict[str, list[int]] = {UPDATE_BEFORE: [], UPDATE_AFTER: [], INSERT: [], DELETE: []}
    for key, (index, row) in after.items():
        was = before.get(key)
        if was is None:
            picks[INSERT].append(index)
        elif image(was[1]) != image(row):
            picks[UPDATE_BEFORE].append(was[0])
            picks[UPDATE_AFTER].append(index)
    picks[DELETE] = [index for key, (index, _) in before.items() if key not in after]
    return {kind: pa.array(places, pa.int64()) for kind, places in picks.items()}


def _differing(old: pa.Table, new: pa.Table, schema: TableSchema, table: str) -> Picks:
    check_unique(new, schema, table=table)
    before, after = pairs(old, new, schema.key)
    stays = pc.and_(pc.is_valid(before), pc.is_valid(after))
    was, now = before.filter(stays), after.filter(stays)
    differs = pa.chunked_array([pa.repeat(False, len(was))])
    for name in schema.stored_names:
        if name not in schema.key:
            differs = pc.or_(differs, _unequal(old.column(name).take(was), new.column(name).take(now)))
    return {
        UPDATE_BEFORE: was.filter(differs.combine_chunks()),
        UPDATE_AFTER: now.filter(differs.combine_chunks()),
        INSERT: after.filter(pc.is_null(before)),
        DELETE: before.filter(pc.is_null(after)),
    }


def _unequal(left: pa.ChunkedArray, right: pa.ChunkedArray) -> pa.ChunkedArray:
    """Where two columns differ: NULL is itself, and so is NaN."""
    if pa.types.is_nested(left.type):
        both = zip(left.to_pylist(), right.to_pylist(), strict=True)
        return pa.chunked_array([[_comparable(a) != _comparable(b) for a, b in both]], pa.bool_())
    unequal = pc.fill_null(pc.not_equal(left, right), pc.xor(pc.is_null(left), pc.is_null(right)))
    if pa.types.is_floating(left.type):
        both_nan = pc.fill_null(pc.and_(pc.is_nan(left), pc.is_nan(right)), False)
        unequal = pc.and_not(unequal, both_nan)
    return unequal


def net(changes: pa.Table, schema: TableSchema) -> pa.Table:
    """Fold changes of several versions to one net change per key, in the driver.

    Args:
        changes: logged columns, ascending by version.
    Returns:
        Stored columns and `_kind`; keys that end as they began are gone.
    """
    few = changes.num_rows <= FEW_FOLDED or not schema.joinable
    ends = _ends_few if few else _ends
    stored = changes.select(list(schema.stored_names))
    old, new = (stored.take(places) for places in ends(changes, schema))
    return diff(old, new, schema, table="")


def _ends_few(changes: pa.Table, schema: TableSchema) -> tuple[pa.Array, pa.Array]:
    """The places of what each key was before its first version, and of what it is after its last one."""
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
    old = [i for _, indexes in first.values() for i in indexes]
    new = [i for _, indexes in last.values() for i in indexes]
    return pa.array(old, pa.int64()), pa.array(new, pa.int64())


def _ends(changes: pa.Table, schema: TableSchema) -> tuple[pa.Array, pa.Array]:
    before = pc.is_in(changes.column(KIND), pa.array(_BEFORE))
    version, place = changes.column(VERSION), pa.array(range(changes.num_rows), pa.int64())
    marked = changes.select(list(schema.key))
    for name, column in (
        ("_first", version),
        ("_last", version),
        ("_old", pc.if_else(before, place, None)),
        ("_new", pc.if_else(before, None, place)),
    ):
        marked = marked.append_column(name, column)
    ends = [("_first", "min"), ("_last", "max"), ("_old", "min"), ("_new", "max")]
    found = marked.group_by(list(schema.key)).aggregate(ends)

    def at(place: str, version_of_key: str) -> pa.Array:
        """These places, where they are of this version of their keys."""
        valid = found.filter(pc.is_valid(found.column(place)))
        places = valid.column(place)
        return places.filter(pc.equal(version.take(places), valid.column(version_of_key))).combine_chunks()

    return at("_old_min", "_first_min"), at("_new_max", "_last_max")


def net_frame(changes: DataFrame, schema: TableSchema) -> DataFrame:
    """As `net`, as a Spark plan over logged columns."""
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
    """As `diff`, as a Spark plan. `old` is None where the table is empty.

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
