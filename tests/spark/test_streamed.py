"""Rows that are read as they come are what Spark gives at once."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headrace.engine.read.streamed import StreamedRows

KINDS = (
    "SELECT id, CAST(id AS DECIMAL(12, 2)) AS amount, CAST(id AS STRING) AS text, id % 3 = 0 AS third, "
    "timestamp_seconds(id) AS at, date_add(DATE'2026-01-01', CAST(id AS INT)) AS day, "
    "array(id, id + 1) AS both, named_struct('a', id, 'b', 'x') AS pair, "
    "IF(id % 2 = 0, NULL, id) AS odd FROM range(0, 50000, 1, 7)"
)


def streamed(frame: DataFrame) -> pa.Table:
    rows = StreamedRows(frame)
    batches = list(rows)
    return pa.Table.from_batches([batches[at] for at in rows.order], rows.schema)


@pytest.mark.parametrize(
    "query",
    [
        KINDS,
        f"SELECT * FROM ({KINDS}) ORDER BY text DESC",
        f"SELECT * FROM ({KINDS}) WHERE id < 0",
        "SELECT 1 AS one",
        f"SELECT third, count(*) AS n FROM ({KINDS}) GROUP BY third ORDER BY n",
    ],
)
def test_they_are_the_rows_of_the_query(spark: SparkSession, query: str) -> None:
    frame = spark.sql(query)
    assert streamed(frame).equals(frame.toArrow())


def test_a_query_that_fails_says_why(spark: SparkSession) -> None:
    frame = spark.sql("SELECT raise_error('as it was read') FROM range(10)")
    with pytest.raises(PySparkException, match="as it was read"):
        streamed(frame)


def test_who_stops_reading_stops_the_query(spark: SparkSession) -> None:
    """Nothing is left of it: the next query has the session as it was."""
    rows: Iterator[pa.RecordBatch] = iter(StreamedRows(spark.sql(KINDS + " UNION ALL " + KINDS)))
    assert next(rows).num_rows > 0
    rows.close()  # type: ignore[attr-defined]
    assert streamed(spark.sql("SELECT 1 AS one")).to_pylist() == [{"one": 1}]
