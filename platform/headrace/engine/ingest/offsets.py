"""One micro-batch of source messages: where it ends, and what it holds."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.engine.spark.prepared import Queries
from headrace.sources.stream.avro import framed_sql
from headrace.sources.stream.broker import Broker
from headrace.sources.stream.envelope import ENVELOPE, LSN, TRANSACTION, Event
from headrace.sources.stream.formats import other, plain_batches
from headrace.sources.stream.messages import RAW, Messages
from headrace.store.record.frontier import Offsets, decode_offsets

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_COLUMNS = (
    "topic", "partition", "offset", "key", "op", "before", "after", "lsn", "source_ms", "snapshot", "value",
    "transaction", "xid", "raw_key", "transaction_order",
)  # fmt: skip


TASKS = 8
"""Tasks that read a large micro-batch, at most."""

TASK_MESSAGES = 10_000
"""Messages below which another task does not pay: each makes a Kafka consumer of its own."""


def parse(messages: DataFrame, *, latest: bool = False) -> DataFrame:
    """Kafka records as envelope columns. A value that is not an envelope has a NULL `op`.

    Args:
        latest: `before` is only filled for deletes, where nothing else tells of the row.
    """
    from pyspark.sql import functions as F

    text = messages.selectExpr(
        "topic", "partition", "offset", "try_validate_utf8(cast(key AS string)) AS key",
        "key AS raw_key", "value", "try_validate_utf8(cast(value AS string)) AS text",
    )  # fmt: skip
    schema = ENVELOPE.replace(" before string,", "") if latest else ENVELOPE
    before = "CASE WHEN _e.op = 'd' THEN get_json_object(text, '$.before') END" if latest else "_e.before"
    envelope = F.from_json("text", schema, {"columnNameOfCorruptRecord": "_corrupt"})
    return text.withColumn("_e", envelope).selectExpr(
        "topic", "partition", "offset", "key", "_e.op AS op", f"{before} AS before", "_e.after AS after",
        f"{LSN} AS lsn", "coalesce(_e.source.ts_ms, 0) AS source_ms",
        "_e.source.snapshot AS snapshot", "value",
        f"{TRANSACTION} AS transaction",
        "_e.source.txId AS xid", "raw_key", "_e.transaction.data_collection_order AS transaction_order",
    )  # fmt: skip


_PARTS = ("key", "value")

EDGE = 32
"""Messages at each end of a range that tell in which form the others are."""

EDGE_KBYTES = 256
"""What the client fetches at once for them."""


def read(spark: SparkSession, broker: Broker, start: Offsets, end: Offsets) -> DataFrame:
    """The Kafka records between two cuts, as plain JSON: a batch frame of `spark` with the columns of `RAW`.

    Raises:
        TransientError: Kafka does not answer, or no longer has them.
    """
    tasks = min(TASKS, 1 + size(start, end) // TASK_MESSAGES)
    other_form = _other(broker, start, end)
    records = (
        spark.read.format("kafka")
        .options(**broker.spark_options())
        .option("subscribe", ",".join(end))
        .option("startingOffsets", json.dumps({t: start[t] for t in end}))
        .option("endingOffsets", json.dumps(end))
        .option("failOnDataLoss", "true")
        .option("minPartitions", tasks)  # a topic has one partition, and its JSON takes most of the time
        .option("includeHeaders", str(other_form))
        .load()
    )
    if not other_form:
        return records.select(*[name for name, _ in RAW])
    framed = records.selectExpr("topic", "partition", "offset", *(f"{framed_sql(p)} AS {p}" for p in _PARTS))
    plain = partial(plain_batches, broker.registry)
    return framed.mapInArrow(plain, ", ".join(f"{name} {kind}" for name, kind in RAW))


def _other(broker: Broker, start: Offsets, end: Offsets) -> bool:
    """Whether the first or the last messages of a partition come in another form than plain JSON."""
    with closing(Messages(broker, EDGE_KBYTES)) as consumer:
        for topic, parts in end.items():
            for partition, last in parts.items():
                first = start.get(topic, {}).get(partition, 0)
                for low, high in ((first, min(first + EDGE, last)), (max(first, last - EDGE), last)):
                    found = consumer.read_as_is({topic: {partition: low}}, {topic: {partition: high}})
                    if other(found.column("key")) or other(found.column("value")):
                        return True
    return False


def stream(
    spark: SparkSession, broker: Broker, topics: Iterable[str], start: Offsets, most: int
) -> DataFrame:
    """The Kafka records from a cut on, as a streaming frame of at most so many a micro-batch."""
    return (
        spark.readStream.format("kafka")
        .options(**broker.spark_options())
        .option("subscribe", ",".join(topics))
        .option("startingOffsets", json.dumps(start))
        .option("maxOffsetsPerTrigger", most)
        .option("failOnDataLoss", "true")
        .load()
    )


def collect(spark: SparkSession, queries: Queries, messages: pa.Table) -> list[Event]:
    """The batch's events in the driver: for small batches.

    Args:
        messages: columns as `sources.stream.messages.RAW`.
        queries: where the plan for parsing them is kept.
    """
    inputs = [(messages, RAW)]
    table = queries.run(spark, "events", inputs, lambda frames: parse(frames[0]).select(*_COLUMNS))
    return list(map(Event._make, zip(*(table.column(c).to_pylist() for c in _COLUMNS), strict=True)))


def end_offsets(checkpoint: Path, batch_id: int) -> Offsets:
    """End offsets of a batch, from Spark's own offset log, which it writes before it runs the batch."""
    lines = (checkpoint / "offsets" / str(batch_id)).read_text(encoding="utf-8").splitlines()
    return decode_offsets(json.loads(lines[2]))


def lowered(offsets: Offsets, held: Iterable[Event]) -> Offsets:
    """The cut before the first of the held events of each partition."""
    cut: Offsets = {topic: dict(parts) for topic, parts in offsets.items()}
    for event in held:
        parts = cut.setdefault(event.topic, {})
        parts[event.partition] = min(event.offset, parts.get(event.partition, event.offset))
    return cut


def size(start: Offsets, end: Offsets) -> int:
    """Messages between two cuts."""
    return sum(o - start.get(t, {}).get(p, 0) for t, parts in end.items() for p, o in parts.items())


def towards(start: Offsets, end: Offsets, most: int) -> Offsets:
    """A cut on the way from one to the other, about so many messages further, with the same part of every
    partition; `end` where that is all."""
    total = size(start, end)
    if total <= most:
        return end
    cut: Offsets = {}
    for topic, parts in end.items():
        own = start.get(topic, {})
        cut[topic] = {p: own.get(p, 0) - (own.get(p, 0) - o) * most // total for p, o in parts.items()}
    return cut


def steps(start: Offsets, end: Offsets, most: int) -> Iterator[tuple[Offsets, Offsets]]:
    """Consecutive cuts between two, with at most so many messages between each."""
    at: Offsets = {t: {p: start.get(t, {}).get(p, 0) for p in parts} for t, parts in end.items()}
    while at != end:
        left, following = most, {t: dict(parts) for t, parts in at.items()}
        for topic, parts in end.items():
            for partition, last in parts.items():
                taken = min(left, last - at[topic][partition])
                following[topic][partition] += taken
                left -= taken
        yield at, following
        at = following


def by_topic(events: Iterable[Event]) -> dict[str, list[Event]]:
    """In the same order."""
    grouped: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        grouped[event.topic].append(event)
    return dict(grouped)
