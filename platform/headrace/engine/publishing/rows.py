"""A table's rows at a version, as many at a time as the driver holds."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.dataset as ds

from headrace.engine.table.table import Table
from headrace.store.schema import arrow_schema, conform

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH_ROWS = 50_000


def rows_at(spark: SparkSession, table: Table, version: int, scratch: Path) -> Iterator[pa.Table]:
    """The columns that readers see.

    Args:
        scratch: where the rows of a table lie meanwhile that the driver does not hold.
    """
    schema = table.store.schema
    wanted, names = arrow_schema(schema.columns), list(schema.names)
    frame = table.store.frame(spark, version=version).select(*[f"`{n}`" for n in names])
    if table.store.commit.rows <= table.limits.rows:
        rows = conform(frame.toArrow(), wanted)
        for start in range(0, rows.num_rows, BATCH_ROWS):
            yield rows.slice(start, BATCH_ROWS)
        return
    place = scratch / f"publish-{uuid.uuid4().hex[:12]}"
    try:
        frame.write.parquet(str(place))
        for batch in ds.dataset(place).to_batches(batch_size=BATCH_ROWS):
            if batch.num_rows:
                yield conform(pa.Table.from_batches([batch]), wanted)
    finally:
        shutil.rmtree(place, ignore_errors=True)
