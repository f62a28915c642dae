"""What a table should hold: its own SQL in batch, over its upstreams at a given cut."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.engine.ingest import source_columns
from headrace.engine.query import run
from headrace.engine.table import Registry, Table
from headrace.sources.postgres import Position
from headrace.store.schema import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def batch_rows(
    spark: SparkSession,
    registry: Registry,
    table: Table,
    frontier: Mapping[str, int],
    *,
    start: str | None = None,
    end: str | None = None,
) -> DataFrame:
    """A derived table's SQL over its upstreams at `frontier`, the table's own columns."""
    frames = {
        name: upstream.store.frame(spark, version=frontier.get(str(name), 0)).select(
            *upstream.store.schema.names
        )
        for name, upstream in registry.upstreams(table).items()
    }
    inputs = [frames[r.upstream] for r in table.spec.references]  # type: ignore[index]
    return run(spark, table.spec, inputs, start=start, end=end).select(*table.store.schema.names)


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
    columns = source_columns(table.source)
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
        yield run(spark, table.spec, [rows], start=start, end=end).select(*table.store.schema.names)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def in_range(rows: DataFrame, table: Table, start: str | None, end: str | None) -> DataFrame:
    """Rows whose partition lies in the inclusive range; all where the table or the call has none."""
    column = table.store.schema.partition
    if column is None or start is None or end is None:
        return rows
    return rows.where((rows[column] >= start) & (rows[column] <= end))
