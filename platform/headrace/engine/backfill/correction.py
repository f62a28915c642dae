"""What must change where a table differs from its SQL: one change per key, wherever its rows are."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from headrace.engine.rows.batch_rows import in_range
from headrace.engine.rows.diff import diff_frame
from headrace.engine.spark.persisted import Persisted
from headrace.engine.table.table import Table
from headrace.spec.partitions.label_range import LabelRange
from headrace.store.schema import DELETE, INSERT, KIND, SEQUENCE, UPDATE_AFTER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def corrections(
    table: Table,
    held: DataFrame,
    expected: DataFrame,
    labels: LabelRange | None,
    persist: Persisted,
    *,
    lacking: str = "",
) -> DataFrame:
    """The changes that turn the held rows of a range into the expected ones, kept.

    A key is one row of the whole table. So a row that comes into the range takes the place of one of its key
    outside, and a row that leaves it does not delete one outside.

    Args:
        held: all rows of the table.
        expected: the rows that the range should hold, the table's own columns.
        lacking: of a stg table: the sequence of rows that it lacks.
    Returns:
        Stored columns and `_kind`.
    """
    schema = table.store.schema
    actual = in_range(held, table, labels)
    wanted = _sequenced(expected, actual, table, lacking)
    changes = persist(diff_frame(actual, wanted, schema))
    if labels is None or schema.partition is None or schema.partition in schema.key:
        return changes
    single = changes.where(changes[KIND].isin(INSERT, DELETE))
    if single.isEmpty():
        return changes
    outside = persist(by_key(_beyond(held, table, labels), single.select(*schema.key).distinct()))
    if outside.isEmpty():
        return changes
    coming = single.where(single[KIND] == INSERT).select(*schema.key)
    leaving = single.where(single[KIND] == DELETE).select(*schema.key)
    moved = diff_frame(
        actual.unionByName(by_key(outside, coming)),
        wanted.unionByName(by_key(outside, leaving)),
        schema,
    )
    return persist(moved)


def once(changes: DataFrame, expected: DataFrame, table: Table, persist: Persisted) -> DataFrame:
    """`changes` with one new row per key, also where damage has left several held rows of one key.

    Two expected rows of one key stay as they are: they break the table's key, and the caller says so.
    """
    key = list(table.store.schema.key)
    new = changes.where(changes[KIND].isin(INSERT, UPDATE_AFTER))
    twice = new.groupBy(*key).count().where("count > 1").select(*key)
    if twice.isEmpty() or not by_key(expected, twice).groupBy(*key).count().where("count > 1").isEmpty():
        return changes
    old = changes.where(~changes[KIND].isin(INSERT, UPDATE_AFTER))
    return persist(old.unionByName(new.dropDuplicates(key)))


def by_key(rows: DataFrame, keys: DataFrame) -> DataFrame:
    """Rows whose key is one of `keys` (a frame of the key columns), NULL-safe."""
    from pyspark.sql import functions as F

    terms = [F.col(f"r.`{k}`").eqNullSafe(F.col(f"k.`{k}`")) for k in keys.columns]
    condition = reduce(lambda a, b: a & b, terms)
    return rows.alias("r").join(keys.alias("k"), condition, "left_semi")


def _beyond(rows: DataFrame, table: Table, labels: LabelRange) -> DataFrame:
    """The rows that `in_range` leaves out, those without a label too."""
    from pyspark.sql import functions as F

    column = rows[table.store.schema.partition or ""]
    inside = (column >= labels.start) & (column <= labels.end)
    inside = inside if labels.only is None else inside & column.isin(sorted(labels.only))
    return rows.where(~F.coalesce(inside, F.lit(False)))


def _sequenced(expected: DataFrame, actual: DataFrame, table: Table, lacking: str) -> DataFrame:
    """stg rows keep the sequence that they have."""
    from pyspark.sql import functions as F

    schema = table.store.schema
    if not schema.sequenced:
        return expected.select(*schema.stored_names)
    key = list(schema.key)
    known = actual.groupBy(*key).agg(F.max(SEQUENCE).alias(SEQUENCE))
    of_row = F.coalesce(F.col(SEQUENCE), F.lit(lacking))
    return expected.join(known, key, "left").withColumn(SEQUENCE, of_row)
