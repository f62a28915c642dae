"""What a table should hold: its own SQL in batch, over its upstreams at a given cut."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.engine.rows.restriction import Times, restriction
from headrace.engine.spark.query import run, used_columns
from headrace.engine.table.table import Registry, Table
from headrace.sources.postgres import Position
from headrace.spec.partitions.labels import open_range, shape
from headrace.store.frames import local
from headrace.store.schema import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Span:
    """Partitions of one table, both ends included; all of it where there are none.

    Args:
        only: labels within the ends: no other one is compared or written.
    """

    start: str | None = None
    end: str | None = None
    only: frozenset[str] | None = None


def batch_rows(
    spark: SparkSession,
    registry: Registry,
    table: Table,
    frontier: Mapping[str, int],
    *,
    start: str | None = None,
    end: str | None = None,
    only: Collection[str] | None = None,
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
    low, high = start, end
    if complete_through:
        low, high = start or open_range(table.spec)[0], min(end or complete_through, complete_through)
    if held is None:
        inputs = _read(spark, registry, table, frontier, start, end)
    else:
        inputs = _given(spark, registry, table, held)
    bounds = (low, high) if table.plan.partitions.bound else (None, None)
    rows = run(spark, table.stored_query, inputs, start=bounds[0], end=bounds[1])
    rows = complete(rows.select(*table.store.schema.stored_names), table, complete_through)
    rows = in_range(rows, table, start, end, only)
    return rows if held is None else rows.coalesce(1)  # a few rows need no more than one task


def _read(
    spark: SparkSession,
    registry: Registry,
    table: Table,
    frontier: Mapping[str, int],
    start: str | None,
    end: str | None,
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
        part = restriction(table, place, upstream.store.schema, start, end, None)
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


@contextmanager
def source_rows(
    spark: SparkSession,
    table: Table,
    position: Position,
    scratch: Path,
    *,
    start: str | None = None,
    end: str | None = None,
) -> Iterator[DataFrame]:
    """A stg table's SQL over the captured table's rows at a known position, while the block lasts."""
    assert table.source is not None
    columns = table.source.typed
    schema = arrow_schema(columns)
    directory = scratch / f"source-{uuid.uuid4().hex[:12]}"
    directory.mkdir(parents=True)
    try:
        with pq.ParquetWriter(directory / "rows.parquet", schema) as writer:
            for chunk in position.rows(table.source):
                arrays = [
                    pa.array(values, field.type)
                    for values, field in zip(zip(*chunk, strict=True), schema, strict=True)
                ]
                writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
        rows = spark.read.parquet(str(directory))
        found = run(spark, table.spec, [rows]).select(*table.store.schema.names)
        yield in_range(found, table, start, end)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def in_range(
    rows: DataFrame,
    table: Table,
    start: str | None,
    end: str | None,
    only: Collection[str] | None = None,
) -> DataFrame:
    """Rows whose partition lies in the inclusive range; all where the table or the call has none.

    Args:
        only: these labels of the range and no others.
    """
    column = table.store.schema.partition
    if column is None or start is None or end is None:
        return rows
    rows = rows.where((rows[column] >= start) & (rows[column] <= end))
    return rows if only is None else rows.where(rows[column].isin(sorted(only)))
