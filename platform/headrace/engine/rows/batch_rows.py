"""What a table should hold: its own SQL in batch, over its upstreams at a given cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.engine.rows.restriction import Times, restriction
from headrace.engine.spark.query import BROKEN, quarantined, run, used_columns
from headrace.engine.table.table import Registry, Table
from headrace.spec.partitions.label_range import LabelRange
from headrace.spec.partitions.labels import open_range, shape
from headrace.store.frames import local

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def batch_rows(
    spark: SparkSession,
    registry: Registry,
    table: Table,
    frontier: Mapping[str, int],
    *,
    labels: LabelRange | None = None,
    complete_through: str = "",
    held: Sequence[pa.Table] | None = None,
) -> DataFrame:
    """A derived table's SQL over its upstreams at `frontier`, stored columns: hidden ones included.

    A range is the whole result restricted to these partitions. The text's parameters carry it only where that
    gives the same rows: a window that reads other partitions must read them here too.

    Args:
        complete_through: of the commit that is meant: no partition after it belongs to the table.
        held: what each reference has for the range, where the driver has it: see `rows_held`.
    """
    if held is None:
        inputs = _read(spark, registry, table, frontier, labels)
    else:
        inputs = _given(spark, registry, table, held)
    rows = run(spark, table.stored_query, inputs, _carried(table, labels, complete_through))
    rows = complete(rows.select(*table.store.schema.stored_names), table, complete_through)
    rows = in_range(rows, table, labels)
    return rows if held is None else rows.coalesce(1)  # a few rows need no more than one task


def quarantined_rows(
    spark: SparkSession,
    registry: Registry,
    table: Table,
    frontier: Mapping[str, int],
    *,
    labels: LabelRange | None = None,
    complete_through: str = "",
) -> DataFrame:
    """A derived table's quarantine: what would be in `batch_rows` were it not for QUARANTINE constraints.

    Returns:
        The table's own columns, and which constraints each row breaks.
    """
    inputs = _read(spark, registry, table, frontier, labels)
    rows = quarantined(spark, table.spec, inputs, _carried(table, labels, complete_through))
    rows = rows.select(*table.store.schema.names, BROKEN)
    return in_range(complete(rows, table, complete_through), table, labels)


def _carried(table: Table, labels: LabelRange | None, complete_through: str) -> LabelRange | None:
    """What the text's parameters carry; None for all labels there can be."""
    if not table.plan.partitions.bound:
        return None
    if complete_through:
        return (labels or open_range(table.spec)).clip(last=complete_through)
    return labels


def _read(
    spark: SparkSession,
    registry: Registry,
    table: Table,
    frontier: Mapping[str, int],
    labels: LabelRange | None,
) -> list[DataFrame]:
    """Each reference's rows at `frontier`, out of files."""
    frames = {
        name: upstream.store.frame(spark, version=frontier.get(str(name), 0)).select(
            *upstream.store.schema.names
        )
        for name, upstream in registry.upstreams(table).items()
    }
    found = []
    for place, upstream in enumerate(registry.referenced(table)):
        part = restriction(table, place, upstream.store.schema, labels)
        # Labels Spark pushes down itself; that a range of them is one of the time it cannot know.
        rows = frames[upstream.name]
        found.append(part.applied(rows) if isinstance(part, Times) else rows)
    return found


def _given(
    spark: SparkSession, registry: Registry, table: Table, held: Sequence[pa.Table]
) -> list[DataFrame]:
    return [
        local(spark, rows, used_columns(table.stored_query, upstream.store.schema.columns))
        for upstream, rows in zip(registry.referenced(table), held, strict=True)
    ]


def complete(rows: DataFrame, table: Table, complete_through: str) -> DataFrame:
    """The rows of the partitions up to this label, all of them where it is "".

    What bears no label of the table's format is in no partition, so it is never complete.
    """
    column = table.store.schema.partition
    if not complete_through or column is None:
        return rows
    label = rows[column]
    return rows.where(label.rlike(f"^{shape(table.spec)}$") & (label <= complete_through))


def in_range(rows: DataFrame, table: Table, labels: LabelRange | None) -> DataFrame:
    """Rows whose partition is in the range; all where the table has no partitions, or there is no range."""
    column = table.store.schema.partition
    if column is None or labels is None:
        return rows
    rows = rows.where((rows[column] >= labels.start) & (rows[column] <= labels.end))
    return rows if labels.only is None else rows.where(rows[column].isin(sorted(labels.only)))
