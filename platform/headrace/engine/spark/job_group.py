"""The Spark jobs of statements."""

from __future__ import annotations

import threading
import uuid
from typing import TYPE_CHECKING

from headrace.engine.spark.session import use_pool
from headrace.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Statements:
    """Those whose Spark jobs run now and that somebody waits for: the flows give way to them."""

    def __init__(self) -> None:
        self._count = 0
        self._changed = threading.Condition()

    def count(self, difference: int) -> None:
        with self._changed:
            self._count += difference
            self._changed.notify_all()

    def wait(self, seconds: float) -> None:
        """Until none runs, but no longer than that."""
        with self._changed:
            self._changed.wait_for(lambda: self._count == 0, seconds)


class JobGroup:
    """Spark jobs started inside the block are cancelled with their statement.

    Args:
        statements: None where the flows do not give way to this one.
    """

    def __init__(self, spark: SparkSession, progress: Progress, statements: Statements | None) -> None:
        self._spark = spark
        self._context = spark.sparkContext
        self._progress = progress
        self._statements = statements
        self._tag = f"headrace-{uuid.uuid4().hex}"

    def __enter__(self) -> None:
        use_pool(self._spark, "batch")
        self._context.addJobTag(self._tag)
        self._progress.on_cancel(lambda: self._context.cancelJobsWithTag(self._tag))
        if self._statements is not None:
            self._statements.count(1)

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self._statements is not None:
            self._statements.count(-1)
        self._context.removeJobTag(self._tag)
        if error is not None:
            self._progress.raise_if_cancelled()
