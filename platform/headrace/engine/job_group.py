"""The Spark jobs of one statement."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from headrace.engine.session import use_pool
from headrace.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class JobGroup:
    """Spark jobs started inside the block are cancelled with their statement."""

    def __init__(self, spark: SparkSession, progress: Progress) -> None:
        self._spark = spark
        self._context = spark.sparkContext
        self._progress = progress
        self._tag = f"headrace-{uuid.uuid4().hex}"

    def __enter__(self) -> None:
        use_pool(self._spark, "batch")
        self._context.addJobTag(self._tag)
        self._progress.on_cancel(lambda: self._context.cancelJobsWithTag(self._tag))

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._context.removeJobTag(self._tag)
        if error is not None:
            self._progress.raise_if_cancelled()
