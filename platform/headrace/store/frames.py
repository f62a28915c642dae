"""Rows of the driver as Spark frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.store.schema import spark_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


LOCAL_BYTES = 4 << 20
"""Of Arrow, beyond which Spark keeps the driver's rows as they are, not as a local relation. Its Java rows,
up to Spark's own 48 MiB, take ten times the memory: 900,000 rows of four columns 411 MB, not 39."""


def local(spark: SparkSession, rows: pa.Table, columns: tuple[tuple[str, str], ...]) -> DataFrame:
    """Driver rows as a frame with exactly these columns and types.

    In one chunk: Spark 4.2 stops reading at the first empty Arrow batch and loses the rows behind it.
    """
    names = [name for name, _ in columns]
    return spark.createDataFrame(rows.select(names).combine_chunks(), spark_type(columns))
