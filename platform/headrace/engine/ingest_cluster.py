"""A stg table's refresh from a large micro-batch, as Spark plans: the initial load, a catch-up."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.engine.cluster import semi_join
from headrace.engine.compaction import compact
from headrace.engine.diff import diff_frame
from headrace.engine.ingest import decode, source_columns
from headrace.engine.query import run
from headrace.engine.table import Delta, Table
from headrace.errors import NeedsResync, TerminalError
from headrace.results import Accounting
from headrace.sources.dead_letters import DeadLetter, DeadLetters
from headrace.sources.envelope import sequence
from headrace.store.frontier import Offsets, merge_offsets
from headrace.store.schema import DELETE, INSERT, KIND, SEQUENCE, STREAM, UPDATE_AFTER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FAULT = """CASE
  WHEN value IS NULL THEN NULL
  WHEN key IS NULL THEN 'the message has no key'
  WHEN op IS NULL THEN 'the value is not a Debezium change event (not JSON, or without `op`)'
  WHEN op NOT IN ('c','r','u','d','t') THEN concat('unknown operation `', op, '`')
  WHEN op = 'd' AND before IS NULL THEN 'a delete without a before image'
  WHEN op IN ('c','r','u') AND after IS NULL THEN concat('operation `', op, '` without an after image')
END"""


def ingest_frame(
    spark: SparkSession,
    table: Table,
    messages: DataFrame,
    offsets: Offsets,
    dead_letters: DeadLetters,
    *,
    run_id: str,
    batch: int,
) -> Delta | None:
    """Apply one large micro-batch to a stg table, in one commit, and compact it.

    Args:
        messages: the envelope columns of `flow.parse`, of this table's topic, below the frontier left out.
    Raises:
        NeedsResync: the source table was truncated.
    """
    with table.store.writing:
        if table.store.cold:
            compact(spark, table, run_id=run_id)
        checked = messages.selectExpr("*", f"{FAULT} AS _fault").persist()
        try:
            return _ingest(spark, table, checked, offsets, dead_letters, run_id=run_id, batch=batch)
        finally:
            checked.unpersist()


def _ingest(
    spark: SparkSession,
    table: Table,
    checked: DataFrame,
    offsets: Offsets,
    dead_letters: DeadLetters,
    *,
    run_id: str,
    batch: int,
) -> Delta | None:
    assert table.source is not None
    schema, head = table.store.schema, table.store.commit
    last = _last_events(checked).persist()
    decoded = decode(last, table.source, "_json").persist()
    bad = decoded.where("_bad IS NOT NULL").selectExpr(*_LETTER, "_bad AS _fault")
    letters = _letters(
        table, checked.where("_fault IS NOT NULL").selectExpr(*_LETTER, "_fault").unionAll(bad)
    )
    good = decoded.where("_bad IS NULL")
    sequenced = good.selectExpr(
        "*", f"concat('{head.generation:04X}', lpad(hex(lsn), 16, '0')) AS {SEQUENCE}"
    )
    newer = _newer(spark, table, sequenced).persist()
    summary = _summary(checked)
    if summary["truncates"]:
        raise NeedsResync(
            f"`{table.name}`: the source table was truncated. Next: `headrace resync {table.name}`"
        )
    columns = [name for name, _ in source_columns(table.source)]
    images = newer.where("op <> 'd'").select(*columns)
    sequences = newer.select(*schema.key, SEQUENCE)
    rows = run(spark, table.spec, [images]).join(sequences, list(schema.key))
    old = None
    if head.version:
        old = semi_join(table.store.frame(spark), schema.key, newer.select(*schema.key), null_safe=False)
    changes = _sequence_deletes(diff_frame(old, rows, schema), sequences, schema.key).persist()
    counts = {row[KIND]: row["count"] for row in changes.groupBy(KIND).count().collect()}
    accounting = _account(summary, counts, len(letters), good.count(), newer.count(), last.count())
    if not accounting.balanced():
        raise TerminalError(f"`{table.name}`: events in and out do not balance: {accounting}")
    dead_letters.add(letters)
    commit = replace(
        head,
        mode="stream",
        version=head.version + 1,
        offsets=merge_offsets(head.offsets, offsets),
        template=table.template,
        run_id=run_id,
        batch=batch,
        high=max(head.high, sequence(head.generation, summary["lsn"])),
        source_ms=max(head.source_ms, summary["source_ms"]),
        accounting=accounting.model_dump(),
    )
    table.store.append_frame(changes, commit, origin=STREAM, kinds=counts)
    table.seen(commit)
    for frame in (last, decoded, newer, changes):
        frame.unpersist()
    compact(spark, table, run_id=run_id)
    return Delta(table.name, commit.version - 1, commit.version, None, sum(counts.values()))


_LETTER = ("topic", "partition", "offset", "key", "value")


def _last_events(checked: DataFrame) -> DataFrame:
    """The last event of each key, with the image that has its row (or, deleted, had it)."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    order = Window.partitionBy("key").orderBy(F.col("lsn").desc(), F.col("offset").desc())
    events = checked.where("value IS NOT NULL AND _fault IS NULL AND op <> 't'")
    newest = events.withColumn("_n", F.row_number().over(order)).where("_n = 1")
    return newest.selectExpr(*_LETTER, "op", "lsn", "CASE WHEN op = 'd' THEN before ELSE after END AS _json")


def _newer(spark: SparkSession, table: Table, events: DataFrame) -> DataFrame:
    """Events that come after what the table has for their key, live or deleted."""
    from pyspark.sql import functions as F

    schema = table.store.schema
    if table.store.version == 0:
        return events
    known = table.store.frame(spark).select(*schema.key, F.col(SEQUENCE).alias("_had"))
    log = table.store.changelog.frame(spark, -1, table.store.version).where(F.col(KIND) == DELETE)
    known = known.unionAll(log.select(*schema.key, F.col(SEQUENCE).alias("_had")))
    newest = known.groupBy(*schema.key).agg(F.max("_had").alias("_had"))
    joined = events.join(newest, list(schema.key), "left")
    return joined.where(f"_had IS NULL OR {SEQUENCE} > _had").drop("_had")


def _sequence_deletes(changes: DataFrame, sequences: DataFrame, key: tuple[str, ...]) -> DataFrame:
    from pyspark.sql import functions as F

    own = sequences.withColumnRenamed(SEQUENCE, "_of_delete")
    joined = changes.join(own, list(key), "left")
    chosen = F.when(F.col(KIND) == DELETE, F.col("_of_delete")).otherwise(F.col(SEQUENCE))
    return joined.withColumn(SEQUENCE, chosen).select(*changes.columns)


def _letters(table: Table, refused: DataFrame) -> list[DeadLetter]:
    return [DeadLetter(str(table.name), r[0], r[1], r[2], r[3], r[4], r[5]) for r in refused.collect()]


def _summary(checked: DataFrame) -> dict[str, int]:
    row = checked.selectExpr(
        "count(*) AS events",
        "count_if(value IS NULL) AS tombstones",
        "count_if(op = 't') AS truncates",
        "count_if(value IS NOT NULL AND _fault IS NULL) AS valid",
        "coalesce(max(lsn) FILTER (WHERE _fault IS NULL), 0) AS lsn",
        "coalesce(max(source_ms), 0) AS source_ms",
    ).collect()[0]
    return {name: int(row[name]) for name in row.asDict()}


def _account(
    summary: dict[str, int], counts: dict[str, int], letters: int, good: int, newer: int, keys: int
) -> Accounting:
    changed = counts.get(INSERT, 0) + counts.get(UPDATE_AFTER, 0) + counts.get(DELETE, 0)
    return Accounting(
        events=summary["events"],
        inserted=counts.get(INSERT, 0),
        updated=counts.get(UPDATE_AFTER, 0),
        deleted=counts.get(DELETE, 0),
        folded=summary["valid"] - keys,
        unchanged=newer - changed,
        duplicate=good - newer,
        tombstones=summary["tombstones"],
        quarantined=letters,
    )
