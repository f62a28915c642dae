"""A stg table's refresh from a large micro-batch that fits the driver: Arrow from messages to files.

For queries of columns, partition labels and ranges of them (`planner.sql.direct`), over tables without
constraints whose columns Arrow reads as Spark does, where every event is newer than all that was applied.
Anything else, a message with a fault too, is left to `ingest.spark`, with the same result.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from headrace.engine.compaction.compaction import compact, snapshot_commit
from headrace.engine.ingest.direct import SAMPLE_ROWS, agrees, direct_query
from headrace.engine.ingest.first_snapshot import Reads
from headrace.engine.ingest.spark import Loaded, account, follows, next_commit
from headrace.engine.rows.diff import check_unique, count_kinds, counted, diff
from headrace.engine.spark.arrow_query import run_direct
from headrace.engine.table.table import Delta, StgTable
from headrace.planner.sql.direct import Direct, Value
from headrace.sources.stream.decoding import Undecodable, decodable, decode
from headrace.sources.stream.envelope import INCREMENTAL, LAST_READ, sequence
from headrace.store.live.key_joins import anti_join, semi_join
from headrace.store.record.frontier import Offsets
from headrace.store.schema import DELETE, INSERT, KIND, SEQUENCE, STREAM

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)


def local_query(table: StgTable) -> Direct | None:
    """What Arrow runs for the table, None where only Spark can ingest it."""
    schema, source = table.store.schema, table.source
    if table.spec.constraints or schema.hidden or not (schema.joinable and schema.comparable):
        return None
    return direct_query(table) if decodable(source) else None


def ingest_local(
    spark: SparkSession,
    table: StgTable,
    query: Direct,
    messages: Iterable[pa.Table],
    offsets: Offsets,
    *,
    run_id: str,
    batch: int,
) -> Loaded | None:
    """Apply one large micro-batch in one commit, and compact the table.

    Args:
        query: `local_query` of the table.
        messages: Kafka records of the table's topic from its frontier on, in pieces, in order.
    Returns:
        None where Spark must do it; then nothing was committed.
    """
    with table.store.writing:
        if table.store.commit.rows > table.limits.rows:
            return None
        begun = time.monotonic()
        try:
            found = _Events.read(table, messages)
        except Undecodable as why:
            log.debug("%s: the messages are left to Spark: %s", table.name, why)
            return None
        if found is None or (table.store.version and not follows(found.summary, table.store.commit)):
            log.debug("%s: the messages are left to Spark: some may have come before", table.name)
            return None
        log.debug("%s: %s events read in %.3f s", table.name, found.last.num_rows, time.monotonic() - begun)
        if not table.run.arrow_agrees:
            sample = found.images(table, found.last.slice(0, SAMPLE_ROWS))
            table.run.arrow_agrees = agrees(spark, table, query, sample)
        if not table.run.arrow_agrees:
            return None
        return _apply(spark, table, query, found, offsets, run_id=run_id, batch=batch)


class _Events:
    """The decoded events of a batch.

    Args:
        last: the last event of each key.
        summary: as `ingest.spark` makes it.
    """

    def __init__(self, last: pa.Table, summary: dict[str, int]) -> None:
        self.last, self.summary = last, summary

    @classmethod
    def read(cls, table: StgTable, messages: Iterable[pa.Table]) -> _Events | None:
        """None where there are no events. Raises Undecodable."""
        parts, total, tombstones = [], 0, 0
        for piece in messages:
            total += piece.num_rows
            empty = piece.column("value").null_count
            tombstones += empty
            if empty < piece.num_rows:
                parts.append(decode(piece, table.source))
        if not parts:
            return None
        events = pa.concat_tables(parts)
        lasts = pc.or_(
            pc.not_equal(events.column("op"), "r"), pc.is_in(events.column("snapshot"), pa.array(LAST_READ))
        )
        last, reads = _last(events), _reads(events)
        return cls(
            last,
            {
                "events": total,
                "tombstones": tombstones,
                "faults": 0,
                "truncates": 0,
                "valid": events.num_rows,
                "keys": last.num_rows,
                "reads": counted(events.column("op"))["r"],
                "lasts": pc.sum(lasts).as_py() or 0,
                "lsn": pc.max(events.column("lsn")).as_py(),
                "first_lsn": pc.min(events.column("lsn")).as_py(),
                "source_ms": pc.max(events.column("source_ms")).as_py(),
                "read_first": reads.first,
                "read_last": reads.last,
            },
        )

    @staticmethod
    def images(table: StgTable, events: pa.Table) -> pa.Table:
        """The source's columns of these events."""
        names = list(table.source.names)
        return pa.table([events.column(f"c{i}") for i in range(len(names))], names=names)


def _reads(events: pa.Table) -> Reads:
    read = pc.equal(events.column("op"), "r")
    lsn, incremental = events.column("lsn"), pc.equal(events.column("snapshot"), INCREMENTAL)
    own = lsn.filter(pc.and_(read, pc.invert(pc.fill_null(incremental, False))))
    return Reads(pc.min(own).as_py() or 0, pc.max(own).as_py() or 0)


def _last(events: pa.Table) -> pa.Table:
    """The last event of each key."""
    order = pc.sort_indices(events, sort_keys=[("lsn", "ascending"), ("offset", "ascending")])
    ranked = pa.table({"key": events.column("key").take(order), "place": pa.array(range(len(order)))})
    newest = ranked.group_by("key").aggregate([("place", "max")]).column("place_max")
    return events.take(order.take(newest.combine_chunks().sort())).combine_chunks()


def _apply(
    spark: SparkSession,
    table: StgTable,
    query: Direct,
    found: _Events,
    offsets: Offsets,
    *,
    run_id: str,
    batch: int,
) -> Loaded:
    store, schema, head = table.store, table.store.schema, table.store.commit
    # Named so that no source has such a column: it goes through the query beside its own.
    marked = Direct((*query.columns, (SEQUENCE, Value(SEQUENCE))), query.bounds)
    images = found.images(table, found.last)
    marks = [sequence(head.generation, lsn) for lsn in found.last.column("lsn").to_pylist()]
    images = images.append_column(SEQUENCE, pa.array(marks, pa.string()))
    deleted = pc.equal(found.last.column("op"), "d")
    new = run_direct(marked, images.filter(pc.invert(deleted)))
    every = run_direct(Direct(marked.columns, ()), images).select([*schema.key, SEQUENCE])
    gone = every.filter(deleted)
    summary = found.summary
    loading = summary["reads"] > 0 and not summary["lasts"]
    if store.version == 0:
        check_unique(new, schema, table=str(table.name))
        counts = Counter({INSERT: new.num_rows})
        buried = gone
        changes = None
    else:
        if store.cold:
            compact(spark, table, run_id=run_id)
        old = semi_join(store.head().read(), schema.key, every)
        changes = _marked(diff(old, new, schema, table=str(table.name)), schema.key, every)
        counts = count_kinds(changes)
        buried = anti_join(gone, schema.key, old)
    left = every.num_rows - gone.num_rows - new.num_rows  # of these some were in the table
    left -= counts.get(DELETE, 0) - (gone.num_rows - buried.num_rows)
    accounting = account(summary, counts, keys=summary["keys"], live=summary["valid"], left_out={"": left})
    commit = next_commit(table, summary, accounting, offsets=offsets, run_id=run_id, batch=batch)
    if changes is None:
        record = snapshot_commit(table, version=commit.version, compacted=commit.version, run_id=run_id)
        store.load(new.select(list(schema.stored_names)), commit, record, tombstones=buried)
    else:
        store.append_large(changes, commit, origin=STREAM, kinds=counts, tombstones=buried)
        compact(spark, table, run_id=run_id)
    table.run.seen(commit)
    return Loaded(
        Delta(table.name, commit.version - 1, commit.version, changes, sum(counts.values())), loading=loading
    )


def _marked(changes: pa.Table, key: tuple[str, ...], every: pa.Table) -> pa.Table:
    """A deletion carries the sequence of what deleted the row: the tombstone that blocks resurrection."""
    kinds = changes.column(KIND)
    gone = changes.filter(pc.equal(kinds, DELETE))
    if not gone.num_rows:
        return changes
    own = gone.drop_columns([SEQUENCE]).join(every, keys=list(key)).select(changes.column_names)
    return pa.concat_tables([changes.filter(pc.not_equal(kinds, DELETE)), own])
