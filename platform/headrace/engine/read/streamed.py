"""A query's rows in batches, as they come from Spark: no process ever holds all of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


class StreamedRows:
    """Rows of a query that is run by whoever reads them, once. As `DataFrame.toArrow` gives them.

    Args:
        order: once all have come, the places of the batches in the order of the rows: Spark hands over each
            when its task has ended.
    """

    def __init__(self, frame: DataFrame) -> None:
        from pyspark.sql.pandas.types import to_arrow_schema

        self.schema: pa.Schema = to_arrow_schema(frame.schema, timezone="UTC")
        self.order: list[int] = []
        self._frame = frame

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """
        Raises:
            PySparkException: the query fails.
        """
        from pyspark.errors.exceptions.captured import unwrap_spark_exception
        from pyspark.sql.pandas.serializers import ArrowCollectSerializer
        from pyspark.util import _load_from_socket

        port, secret, job = self._frame._jdf.collectAsArrowToPython()
        try:
            with _load_from_socket((port, secret), ArrowCollectSerializer()) as found:
                for batch in found:
                    if isinstance(batch, list):
                        self.order = batch
                    else:
                        yield batch.cast(self.schema)
        except GeneratorExit:  # nobody reads on: the job ends as it hands over its next batch
            with suppress(Exception):
                job.getResult()
            raise
        except Exception:  # it could not be read, for what the JVM says
            with unwrap_spark_exception():
                job.getResult()
            raise
        with unwrap_spark_exception():
            job.getResult()
