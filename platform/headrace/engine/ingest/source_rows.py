"""What a stg table should hold: its SQL over the captured table, at a cut that was marked in the stream."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.engine.ingest.cuts import Cut
from headrace.engine.ingest.images import decode
from headrace.engine.rows.batch_rows import in_range
from headrace.engine.spark.query import BROKEN, quarantined, run
from headrace.engine.table.table import StgTable
from headrace.sources.part import Part
from headrace.sources.position import Position, Seen
from headrace.sources.schema import SourceSchema
from headrace.sources.stream.envelope import TRUNCATE, Event
from headrace.spec.partitions.label_range import LabelRange
from headrace.store.frames import local
from headrace.store.schema import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_IMAGES = (("_json", "string"), ("_gone", "boolean"))


@contextmanager
def source_rows(
    spark: SparkSession,
    table: StgTable,
    position: Position,
    cut: Cut,
    scratch: Path,
    labels: LabelRange | None = None,
    *,
    quarantine: bool = False,
) -> Iterator[DataFrame]:
    """A stg table's SQL over the captured table's rows at the cut, while the block lasts.

    They are those of the position's snapshot, but for keys that were changed between there and the cut: these
    have their last image of the stream. A change of a row waits until the one before it is committed, so
    where the snapshot lacks a change of a key, it lacks all later ones of that key, too.

    Args:
        quarantine: those that break a QUARANTINE constraint instead, with the names of these.
    """
    with _staged(spark, table, position, scratch) as staged:
        rows = _at_cut(spark, table, staged, position, cut)
        found = (
            quarantined(spark, table.spec, [rows]).select(*table.store.schema.names, BROKEN)
            if quarantine
            else run(spark, table.spec, [rows]).select(*table.store.schema.names)
        )
        yield in_range(found, table, labels)


@contextmanager
def part_rows(
    spark: SparkSession, table: StgTable, position: Position, cut: Cut, scratch: Path, part: Part
) -> Iterator[tuple[DataFrame, DataFrame]]:
    """As `source_rows`, of a part of the captured table; and the keys that it is about, also of no row."""
    with _staged(spark, table, position, scratch, part) as staged:
        keys = _keys(spark, staged, table.source, part)
        rows = _at_cut(spark, table, staged, position, cut).join(keys, list(part.key), "left_semi")
        yield run(spark, table.spec, [rows]).select(*table.store.schema.names), keys


def captured(
    spark: SparkSession, table: StgTable, position: Position, cut: Cut, scratch: Path, part: Part
) -> int:
    """Rows of a part of the captured table at the cut, whatever the stg table's SQL makes of them."""
    with _staged(spark, table, position, scratch, part) as staged:
        keys = _keys(spark, staged, table.source, part)
        return _at_cut(spark, table, staged, position, cut).join(keys, list(part.key), "left_semi").count()


@contextmanager
def _staged(
    spark: SparkSession, table: StgTable, position: Position, scratch: Path, part: Part | None = None
) -> Iterator[DataFrame]:
    """The captured table's rows at the snapshot, in a file while the block lasts."""
    directory = scratch / f"source-{uuid.uuid4().hex[:12]}"
    directory.mkdir(parents=True)
    try:
        position.stage(table.source, arrow_schema(table.source.typed), directory / "rows.parquet", part)
        yield spark.read.parquet(str(directory))
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _at_cut(
    spark: SparkSession, table: StgTable, staged: DataFrame, position: Position, cut: Cut
) -> DataFrame:
    """The rows with what the stream has brought between the snapshot and the cut."""
    unseen = unseen_events(cut.events.get(table.topic, ()), position.seen)
    rows = staged.limit(0) if any(event.truncates for event in unseen) else staged
    later = last_images(unseen)
    return _overlaid(spark, rows, later, table.source) if later else rows


def _keys(spark: SparkSession, staged: DataFrame, source: SourceSchema, part: Part) -> DataFrame:
    """The keys that a part of the captured table is about."""
    types = dict(source.typed)
    kinds = tuple((column, types[column]) for column in part.key)
    columns = list(zip(*part.others, strict=True)) or [()] * len(kinds)
    arrow = arrow_schema(kinds)
    others = pa.table([pa.array(v, f.type) for v, f in zip(columns, arrow, strict=True)], schema=arrow)
    return staged.select(*part.key).unionByName(local(spark, others, kinds))


def unseen_events(events: Iterable[Event], seen: Seen) -> list[Event]:
    """Those whose transaction is not among those seen, in the source's order.

    Args:
        events: of one topic. What cannot be applied is left out, as in the table; so are the rows of
            Debezium's snapshots, which are no transactions of the source.
    """

    def counts(event: Event) -> bool:
        applied = not event.is_tombstone and event.op in ("c", "u", "d", TRUNCATE) and event.fault() is None
        return applied and seen.shows(event) is False

    return sorted(filter(counts, events), key=lambda e: (e.lsn, e.offset))


def offsets_after(cut: Cut, topic: str, seen: Seen) -> dict[int, int]:
    """Where a topic goes on after rows that were read at a snapshot: past what waits and is in the rows.

    A transaction that a connector has broken off, because it began anew, is never whole. What the topic has
    of it is older than the rows, and nothing that follows need put that right.

    Args:
        seen: the transactions that the rows show.
    """
    found, stopped = dict(cut.offsets[topic]), set[int]()
    for event in cut.held.get(topic, ()):
        shown = event.is_tombstone or event.op == "r" or seen.shows(event) is True
        if not shown:
            stopped.add(event.partition)
        elif event.partition not in stopped:
            found[event.partition] = event.offset + 1
    return found


def last_images(events: Iterable[Event]) -> list[Event]:
    """The last event of each key since the last truncation.

    Args:
        events: in the source's order.
    """
    last: dict[str | None, Event] = {}
    for event in events:
        if event.truncates:
            last.clear()
        else:
            last[event.key] = event
    return list(last.values())


def _overlaid(spark: SparkSession, rows: DataFrame, later: list[Event], source: SourceSchema) -> DataFrame:
    """The rows with these changes made."""
    texts = pa.table(
        {
            "_json": pa.array([e.before if e.op == "d" else e.after for e in later], pa.string()),
            "_gone": pa.array([e.op == "d" for e in later], pa.bool_()),
        }
    )
    images = decode(local(spark, texts, _IMAGES), source, "_json").where("_bad IS NULL")
    kept = rows.join(images.select(*source.key), list(source.key), "left_anti")
    return kept.select(*source.names).unionByName(images.where("NOT _gone").select(*source.names))
