"""Queries that are planned once and run for every small input.

For a few dozen rows analysis, optimization and planning of a query take much longer than its rows. A prepared
query keeps Spark's physical plan and runs it again, in the calling thread (`driver_task.py`). What changes is
what its leaves read: a block of Spark's block manager, which is filled before a run and removed after it.

That is exact as long as nothing in the plan keeps results of a run. Exchanges, broadcasts and subqueries do:
a plan with an operator that is not known to be free of such state is not kept, its query is planned for each
input. With every leaf in one partition aggregates, windows and joins by equality need none.
"""

from __future__ import annotations

import itertools
import tempfile
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.engine.spark.driver_task import DriverPlan, DriverTasks, scala_object
from headrace.store.frames import LOCAL_BYTES, local
from headrace.store.schema import spark_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Columns = tuple[tuple[str, str], ...]
Build = Callable[[list["DataFrame"]], "DataFrame"]
"""The query over frames of its inputs. It may depend on nothing that differs between two runs."""

MOST_ROWS = 20_000
"""Input rows up to which a plan made without knowing them is good enough; more are planned for."""

MOST_BYTES = LOCAL_BYTES // 2
"""Of one input, so that it is a local relation, whose rows a leaf takes, however Arrow pads it."""

REPEATABLE = frozenset(
    (
        "Coalesce",
        "Expand",
        "Filter",
        "Generate",
        "GlobalLimit",
        "HashAggregate",
        "LocalLimit",
        "LocalTableScan",
        "ObjectHashAggregate",
        "Project",
        "Scan ExistingRDD",
        "Sort",
        "SortAggregate",
        "SortMergeJoin",
        "TakeOrderedAndProject",
        "Union",
        "Window",
        "WindowGroupLimit",
    )
)
"""Physical operators that keep nothing of a run, by Spark's names for them."""

_LEAVES = itertools.count()

_PLANNING = threading.Lock()
"""Held while a plan is made that is to be kept: a setting of the session is another one meanwhile."""


@dataclass
class Queries:
    """The prepared queries of one table, by what they are for. One thread runs one of them at a time."""

    _known: dict[Hashable, _Prepared | None] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(
        self,
        spark: SparkSession,
        purpose: Hashable,
        inputs: Sequence[tuple[pa.Table, Columns]],
        build: Build,
    ) -> pa.Table:
        """The query's rows.

        Args:
            purpose: what `build` computes; with the inputs' columns it says which query it is.
            inputs: rows and the columns of them to use.
        """
        rows = [table for table, _ in inputs]
        columns = tuple(c for _, c in inputs)
        large = any(table.select([n for n, _ in c]).nbytes > MOST_BYTES for table, c in inputs)
        if large or sum(table.num_rows for table in rows) > MOST_ROWS:
            return _planned_anew(spark, inputs, build)
        key = (purpose, columns, id(spark))
        with self._lock:
            if key not in self._known:
                found = _Prepared(spark, columns, build)
                self._known[key] = found if found.repeatable else None
            prepared = self._known[key]
            if prepared is not None:
                return prepared.run(rows)
        return _planned_anew(spark, inputs, build)


def _planned_anew(spark: SparkSession, inputs: Sequence[tuple[pa.Table, Columns]], build: Build) -> pa.Table:
    return build([local(spark, rows, columns) for rows, columns in inputs]).toArrow()


class _Leaf:
    """An input of a prepared query: one block, read as one partition."""

    def __init__(self, spark: SparkSession, columns: Columns) -> None:
        from pyspark.sql import DataFrame
        from pyspark.sql.pandas.types import to_arrow_schema

        assert spark._jvm is not None
        jvm, context = spark._jvm, spark.sparkContext._jsc.sc()
        self._spark, self._columns = spark, columns
        self._names = [name for name, _ in columns]
        self._types = spark_type(columns).json()
        self._arrow = to_arrow_schema(spark_type(columns), timezone="UTC")
        self._python = jvm.org.apache.spark.sql.api.python.PythonSQLUtils
        self._blocks = context.env().blockManager()
        storage = jvm.org.apache.spark.storage
        # Streams of Spark's old DStream API name their blocks so; nothing here has one.
        self._block = storage.StreamBlockId(-1, next(_LEAVES))
        self._level = storage.StorageLevel.MEMORY_AND_DISK()
        self._tag = jvm.scala.reflect.ClassTag.apply(
            jvm.java.lang.Class.forName("org.apache.spark.sql.catalyst.InternalRow")
        )
        ids = spark.sparkContext._gateway.new_array(storage.BlockId, 1)  # type: ignore[union-attr]
        ids[0] = self._block
        source = jvm.org.apache.spark.rdd.BlockRDD(context, ids, self._tag)
        schema = jvm.org.apache.spark.sql.types.DataType.fromJson(self._types)
        made = spark._jsparkSession.internalCreateDataFrame(source, schema, False)
        planned = _few_in_one_partition(jvm, spark._jsparkSession, made.queryExecution().logical())
        self.frame = DataFrame(planned, spark)

    def fill(self, rows: pa.Table) -> None:
        data = self._relation(rows).queryExecution().logical().data().iterator()
        if not self._blocks.putIterator(self._block, data, self._level, True, self._tag):
            raise RuntimeError(f"Spark's block manager did not take {rows.num_rows} rows")

    def _relation(self, rows: pa.Table) -> Any:
        """What `local` makes, by the few calls of it that differ from one input to the next."""
        given = rows.select(self._names).combine_chunks()
        if given.schema.types != self._arrow.types:
            return local(self._spark, rows, self._columns)._jdf
        with tempfile.NamedTemporaryFile(dir=self._spark.sparkContext._temp_dir) as file:
            with pa.ipc.new_stream(file, given.schema) as stream:
                stream.write_table(given)
            file.flush()
            batches = self._python.readArrowStreamFromFile(file.name)
        return self._python.toDataFrame(batches, self._types, self._spark._jsparkSession)

    def clear(self) -> None:
        self._blocks.removeBlock(self._block, True)


def _few_in_one_partition(jvm: Any, session: Any, plan: Any) -> Any:
    """A frame of the same rows, of which Spark knows that they are in one partition, and few.

    Else it would bring the two sides of a join together by exchanges. The sides' sizes are multiplied.
    """
    physical, logical = (getattr(jvm.org.apache.spark.sql.catalyst.plans, n) for n in ("physical", "logical"))
    nothing, few = scala_object(jvm.scala, "None"), logical.OneRowRelation().stats()
    known = plan.copy(
        plan.output(),
        plan.rdd(),
        scala_object(physical, "SinglePartition"),
        plan.outputOrdering(),
        False,
        nothing,
        session,
        jvm.scala.Some(few),
        nothing,
    )
    return scala_object(jvm.org.apache.spark.sql.classic, "Dataset").ofRows(session, known)


class _Prepared:
    """One query and its physical plan."""

    def __init__(self, spark: SparkSession, columns: Sequence[Columns], build: Build) -> None:
        self._leaves = [_Leaf(spark, c) for c in columns]
        with _PLANNING, _setting(spark, "spark.sql.autoBroadcastJoinThreshold", "-1"):
            frame = build([leaf.frame for leaf in self._leaves]).coalesce(1)
            self.repeatable = _repeatable(frame._jdf.queryExecution().executedPlan())
        self._plan = DriverPlan.of(_tasks(spark), frame) if self.repeatable else None

    def run(self, rows: Sequence[pa.Table]) -> pa.Table:
        assert self._plan is not None, "only a repeatable plan is run"
        filled: list[_Leaf] = []
        try:
            for leaf, table in zip(self._leaves, rows, strict=True):
                filled.append(leaf)
                leaf.fill(table)
            return self._plan.run()
        finally:
            for leaf in filled:
                leaf.clear()


@contextmanager
def _setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    """Whoever plans for the session's rows meanwhile has it, too."""
    before = spark.conf.get(name)
    assert before is not None
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, before)


@lru_cache(maxsize=8)
def _tasks(spark: SparkSession) -> DriverTasks:
    return DriverTasks(spark)


def _repeatable(plan: Any) -> bool:
    """Whether a physical plan, a JVM object, gives what its leaves hold at each run."""
    if plan.nodeName().strip() not in REPEATABLE or not plan.subqueries().isEmpty():
        return False
    children = plan.children()
    return all(_repeatable(children.apply(i)) for i in range(children.size()))
