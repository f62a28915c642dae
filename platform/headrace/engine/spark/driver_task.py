"""Running a physical plan of one partition in the calling thread, without a Spark job.

A job over a few dozen rows is mostly its scheduling: the plan is serialized, sent to an executor, which is
the same process, and its rows come back through a socket. Spark's operators need nothing of that but a task's
context, for its memory, its settings and what is to be closed at its end.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ATTEMPTS = itertools.count(1 << 40)
"""Numbers that Spark's own tasks do not reach."""


def scala_object(package: Any, name: str) -> Any:
    """The one instance of a Scala `object`."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")


class DriverTasks:
    """What tasks in the driver need of one session, looked up once. Its settings must not change."""

    def __init__(self, spark: SparkSession) -> None:
        assert spark._jvm is not None
        jvm = spark._jvm
        env = spark.sparkContext._jsc.sc().env()
        self._memory, self._metrics = env.memoryManager(), env.metricsSystem()
        self._blocks = env.blockManager()
        self._settings = jvm.java.util.Properties()
        for name, value in spark.conf.getAll.items():
            self._settings.setProperty(name, value)
        self._memory_manager = jvm.org.apache.spark.memory.TaskMemoryManager
        self._task_metrics = jvm.org.apache.spark.executor.TaskMetrics
        self._context = jvm.org.apache.spark.TaskContextImpl
        self._current = scala_object(jvm.org.apache.spark, "TaskContext")
        self._nothing = scala_object(jvm.scala, "None")
        self._no_resources = scala_object(jvm.scala.collection.immutable, "Map").empty()
        arrow = scala_object(jvm.org.apache.spark.sql.execution.arrow, "ArrowConverters")
        self.to_arrow = arrow.toBatchWithSchemaIterator

    @contextmanager
    def task(self) -> Iterator[Any]:
        """A task's context, which is this thread's meanwhile."""
        attempt = next(_ATTEMPTS)
        memory = self._memory_manager(self._memory, attempt)
        context = self._context(
            0, 0, 0, attempt, 0, 1, memory, self._settings, self._metrics, self._task_metrics(), 1,
            self._no_resources,
        )  # fmt: skip
        self._blocks.registerTask(attempt)
        self._current.setTaskContext(context)
        try:
            yield context
        finally:
            try:
                context.markTaskCompleted(self._nothing)
            finally:
                self._current.unset()
                self._blocks.releaseAllLocksForTask(attempt)
                memory.cleanUpAllAllocatedMemory()


@dataclass(frozen=True)
class DriverPlan:
    """The physical plan of a frame, to be run again and again. It has one partition."""

    tasks: DriverTasks
    rows: Any
    partition: Any
    types: Any
    schema: pa.Schema

    @classmethod
    def of(cls, tasks: DriverTasks, frame: DataFrame) -> DriverPlan:
        """Raises ValueError where the plan has more than one partition."""
        from pyspark.sql.pandas.types import to_arrow_schema

        rows = frame._jdf.queryExecution().executedPlan().execute()
        partitions = rows.partitions()
        if len(partitions) != 1:
            raise ValueError(f"a plan of {len(partitions)} partitions is no task of the driver")
        schema = to_arrow_schema(frame.schema, error_on_duplicated_field_names_in_struct=True, timezone="UTC")
        return cls(tasks, rows, partitions[0], frame._jdf.schema(), schema)

    def run(self) -> pa.Table:
        """The rows. Raises what Spark raises for a query that fails, without a failed job around it."""
        with self.tasks.task() as context:
            rows = self.rows.iterator(self.partition, context)
            batches = self.tasks.to_arrow(rows, self.types, 0, 0, "UTC", True, False)
            found = []
            while batches.hasNext():
                found.append(pa.ipc.open_stream(batches.next()).read_all())
        if not found:
            return self.schema.empty_table()
        return pa.concat_tables(found).cast(self.schema)
