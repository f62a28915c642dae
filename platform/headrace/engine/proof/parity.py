"""Proof: a table equals what its SQL gives in batch at the same input cut, as multisets, exactly."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from headrace.engine.backfill.correction import by_key
from headrace.engine.ingest.offsets import read, size
from headrace.engine.ingest.spark import topic_rows
from headrace.engine.proof.topic_base import topic_base
from headrace.engine.rows.batch_rows import batch_rows, in_range
from headrace.engine.rows.differences import Counted, counted, differences, multiplicities
from headrace.engine.spark.persisted import Persisted
from headrace.engine.spark.query import tests_rows
from headrace.engine.table.offline_bound import unwritten
from headrace.engine.table.table import Registry, StgTable, Table
from headrace.results import DifferingRow, ParityResult
from headrace.sources.stream.broker import Broker
from headrace.sources.stream.envelope import TRUNCATE
from headrace.sources.stream.messages import RAW, read_once
from headrace.sources.stream.topics import Topics
from headrace.spec.partitions.label_range import LabelRange
from headrace.spec.partitions.labels import mutable_range
from headrace.store.frames import local

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TRUNCATION = rf'"op"\s*:\s*"{TRUNCATE}"'

SAMPLE = 20
"""Differing rows that a result shows."""


def compare(
    spark: SparkSession,
    table: Table,
    version: int,
    expected: DataFrame,
    *,
    labels: LabelRange | None = None,
    among: DataFrame | None = None,
    against: str,
    frontier: dict[str, Any],
    position: str | None = None,
) -> ParityResult:
    """Compare the table's rows at a version with the expected ones, and say what differs, row by row.

    Rows that fit the driver are compared there: whether anything differs is known so for a fraction of what a
    Spark job costs. Where something does, or they do not fit, Spark compares, and says what.

    Args:
        among: keys of the rows that are compared; None: all of the range.
    """
    begun = time.monotonic()
    sample: list[DifferingRow] = []
    partitions: list[str] = []
    found = None
    if among is None and _suits_driver(table):
        found = _compared_in_driver(table, version, expected, labels)
    if found is None or found.differs:
        actual = in_range(table.store.frame(spark, version=version), table, labels)
        if among is not None:
            actual = by_key(actual, among)
        with Persisted() as persist:
            if tests_rows(table.spec):  # Spark fails where it infers a UNION's constraints from its subquery
                expected = persist(expected)
            sums = multiplicities(actual, expected).selectExpr(
                "coalesce(sum(_n), 0) AS rows",
                "coalesce(sum(greatest(_d, 0)), 0) AS missing",
                "coalesce(sum(greatest(-_d, 0)), 0) AS extra",
            )
            found = Counted(*(int(value) for value in sums.collect()[0]))
            if found.differs:  # a second pass: most comparisons find nothing to show
                sample, partitions = _describe(persist(differences(actual, expected)), table)
    return ParityResult(
        table=str(table.name),
        against="source" if against == "source" else "batch",
        equal=not found.differs,
        rows=found.rows,
        missing=found.missing,
        extra=found.extra,
        version=version,
        frontier=frontier,
        position=position,
        partitions=partitions,
        sample=sample,
        seconds=time.monotonic() - begun,
    )


def _suits_driver(table: Table) -> bool:
    """Whether Arrow tells the table's rows apart, and the driver may hold them."""
    schema = table.store.schema
    return schema.joinable and schema.comparable and table.store.commit.rows <= table.limits.rows


def _compared_in_driver(
    table: Table, version: int, expected: DataFrame, labels: LabelRange | None
) -> Counted | None:
    """None where the result of the query does not fit, or its types are not the table's."""
    names = list(expected.columns)
    wanted = expected.limit(table.limits.rows + 1).toArrow()
    if wanted.num_rows > table.limits.rows:
        return None
    held = table.store.read(version, labels).select(names)
    if wanted.schema.types != held.schema.types:
        return None
    return counted(held, wanted.cast(held.schema))  # they may differ in which columns cannot be NULL


def _describe(found: DataFrame, table: Table) -> tuple[list[DifferingRow], list[str]]:
    rows = []
    ordered = found.orderBy(*table.store.schema.key, "_d").limit(SAMPLE)
    for row in ordered.collect():
        values = row.asDict()
        missing = values.pop("_d") > 0
        rows.append(DifferingRow(side="expected" if missing else "table", row=values))
    column = table.store.schema.partition
    partitions = [] if column is None else [r[0] for r in found.select(column).distinct().collect()]
    return rows, sorted(str(p) for p in partitions)


def verify_topic(
    spark: SparkSession,
    table: StgTable,
    broker: Broker,
    topics: Topics,
    labels: LabelRange | None = None,
    *,
    left_out: Collection[tuple[int, int]] = (),
) -> ParityResult:
    """A stg table against its SQL over its topic up to the frontier that its commit recorded.

    Rows that came past the topic stand before it: those of a bulk snapshot, or of a table that began again.
    Where Kafka no longer holds the topic from there, an earlier version of the table itself does, the oldest
    that the topic still follows.

    Args:
        left_out: partition and offset of messages that are not to be applied.
    Raises:
        NeedsResync: there is none, or retention has removed the rows.
    """
    from pyspark.sql import functions as F

    table.store.reread()
    commit, topic = table.store.commit, table.topic
    base = topic_base(table, topics.bounds([topic]))
    begin, end = base.offsets, {topic: commit.offsets.get(topic, base.offsets[topic])}
    if size(begin, end) <= table.limits.small:  # consumers of Spark's tasks take a second to start
        held = read_once(broker, begin, end)
        truncations = bool(pc.any(pc.match_substring_regex(held.column("value"), _TRUNCATION)).as_py())
        messages = local(spark, held, RAW)
    else:
        truncations, messages = True, read(spark, broker, begin, end)
    for partition in sorted({p for p, _ in left_out}):
        places = [o for p, o in left_out if p == partition]
        messages = messages.where(~((F.col("partition") == partition) & F.col("offset").isin(places)))
    before = None
    if base.version:
        store = table.store
        before = store.loaded_rows(spark) if base.first else store.frame(spark, version=base.version)
    with Persisted() as persist:
        # A bulk snapshot's rows are older than every event of the topic.
        repeats = not base.first or bool(commit.loaded_at)
        rows = topic_rows(spark, table, messages, persist, before, repeats=repeats, truncations=truncations)
        expected = in_range(rows, table, labels)
        result = compare(
            spark, table, commit.version, expected, labels=labels, against="batch", frontier=commit.frontier
        )
    return result.model_copy(update={"since": 0 if base.first else base.version})


def verify_batch(
    spark: SparkSession,
    registry: Registry,
    table: Table,
    labels: LabelRange | None = None,
) -> ParityResult:
    """A derived table against its SQL at the frontier that its rows cover; streams go on meanwhile.

    That is the one its commit recorded, or later upstream versions that were found to change nothing.
    Immutable partitions are left out: they need not be what the query gives. A table that the batch alone
    writes has the partitions that its commit says, and no others; none before its first run.
    """
    table.store.reread()
    with table.store.writing:  # between two refreshes: version and frontier belong together
        commit, frontier = table.store.commit, table.reached
    version, bound = commit.version, commit.immutable_before
    labels = mutable_range(table.spec, bound, labels)
    through = commit.complete_through
    if nothing := unwritten(table, None):
        frontier = registry.versions(table)
    expected = batch_rows(spark, registry, table, frontier, labels=labels, complete_through=through)
    if nothing:
        expected = expected.limit(0)
    result = compare(spark, table, version, expected, labels=labels, against="batch", frontier=frontier)
    return result.model_copy(update={"immutable_before": bound, "complete_through": through})
