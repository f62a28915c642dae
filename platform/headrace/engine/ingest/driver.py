"""A stg table's refresh from its topic: small batches in the driver, large ones as Spark plans.

Source rows become table rows through the table's own SQL, like any other upstream's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.engine.ingest.first_snapshot import Reads, read_at
from headrace.engine.ingest.images import Images, run_images
from headrace.engine.ingest.refused import unsent
from headrace.engine.refresh.audit import audit
from headrace.engine.refresh.constraints import check_violations
from headrace.engine.rows.diff import diff
from headrace.engine.table.table import Delta, StgTable
from headrace.errors import TerminalError
from headrace.results import Accounting
from headrace.sources.columns import unsent_column
from headrace.sources.stream.dead_letters import DeadLetter, DeadLetters, Doubtful
from headrace.sources.stream.envelope import Event, NetChange, has_row_before, net, sequence
from headrace.store.live.key_joins import KeySet, semi_join, tuples
from headrace.store.record.frontier import Offsets, covers, merge_offsets
from headrace.store.schema import (
    DELETE,
    INSERT,
    KIND,
    SEQUENCE,
    STREAM,
    UPDATE_AFTER,
    arrow_schema,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class _Batch:
    """What a micro-batch holds for one table, faults removed."""

    events: list[Event]
    letters: list[DeadLetter]
    accounting: Accounting


def _sort_out(table: StgTable, events: Sequence[Event]) -> _Batch:
    accounting = Accounting(events=len(events))
    good: list[Event] = []
    letters: list[DeadLetter] = []
    for event in events:
        if event.is_tombstone:
            accounting.tombstones += 1
            continue
        fault = event.fault()
        if fault is None:
            good.append(event)
        else:
            letters.append(_letter(table, event, fault))
    return _Batch(good, letters, accounting)


def _letter(table: StgTable, event: Event, reason: str) -> DeadLetter:
    return DeadLetter(
        str(table.name),
        event.topic,
        event.partition,
        event.offset,
        event.raw_key if event.key is None else event.key.encode(),
        event.value,
        reason,
    )


def ingest(
    spark: SparkSession,
    table: StgTable,
    events: Sequence[Event],
    offsets: Offsets,
    dead_letters: DeadLetters,
    *,
    run_id: str,
    batch: int,
) -> Delta | None:
    """Apply one small micro-batch to a stg table, in one commit.

    Args:
        events: the table's events of the batch, without TRUNCATE; those below its recorded frontier are
            skipped.
        offsets: the batch's end offsets of the table's topic.
    Returns:
        The net change, or None where there was nothing new.
    Raises:
        NeedsResync: a value was not sent.
    """
    with table.store.writing:
        done = table.store.commit.offsets
        fresh = [e for e in events if not covers(done, e.topic, e.partition, e.offset)]
        if not fresh:
            return None
        found = _sort_out(table, fresh)
        applied = _changes(spark, table, found, dead_letters.doubtful(str(table.name)))
        audit(spark, table, applied.changes)
        dead_letters.add(applied.letters)
        offsets = merge_offsets(done, offsets)
        delta = _commit(table, found, applied, offsets=offsets, run_id=run_id, batch=batch)
        table.run.seen(table.store.commit)
        return delta


def replay(
    spark: SparkSession, table: StgTable, events: Sequence[Event], dead_letters: DeadLetters, *, run_id: str
) -> list[DeadLetter]:
    """Apply events that could not be applied before, each where it would have been.

    Newer events of their keys stay, and the table's offsets.

    Returns:
        Those that still cannot be.
    Raises:
        NeedsResync: a value was not sent.
    """
    with table.store.writing:
        found = _sort_out(table, events)
        applied = _changes(spark, table, found, dead_letters.doubtful(str(table.name)))
        audit(spark, table, applied.changes)
        if applied.changes.num_rows or applied.tombstones.num_rows:
            _commit(table, found, applied, offsets=table.store.commit.offsets, run_id=run_id, batch=-1)
        return applied.letters


def _commit(
    table: StgTable, found: _Batch, applied: _Applied, *, offsets: Offsets, run_id: str, batch: int
) -> Delta:
    accounting, head = found.accounting, table.store.commit
    if not accounting.balanced():
        raise TerminalError(f"`{table.name}`: events in and out do not balance: {accounting}")
    highest = max((sequence(head.generation, e.lsn) for e in found.events), default="")
    commit = head.next(
        "stream",
        run_id,
        offsets=offsets,
        template=table.template,
        batch=batch,
        origin=table.run.origin_after(head),
        high=max(head.high, highest),
        snapshot=read_at(table, Reads.of(found.events)),
        source_ms=max([head.source_ms, *(e.source_ms for e in found.events)]),
        accounting=accounting.model_dump(),
    )
    changes = applied.changes
    table.store.append(changes, commit, origin=STREAM, tombstones=applied.tombstones)
    return Delta(table.name, commit.version - 1, commit.version, changes, changes.num_rows)


@dataclass(frozen=True)
class _Applied:
    """Net changes, tombstones of rows never held, and what is refused."""

    changes: pa.Table
    tombstones: pa.Table
    letters: list[DeadLetter]


def _changes(spark: SparkSession, table: StgTable, found: _Batch, doubtful: Doubtful) -> _Applied:
    head = table.store.commit
    events, letters = found.events, list(found.letters)
    doubtful |= Doubtful(everything=not head.rows)  # an empty table has no row before, whatever an event says
    while True:
        unsure = doubtful | Doubtful.of(letter.key for letter in letters)
        nets = net(
            events,
            generation=head.generation,
            high=head.high,
            full_identity=table.source.full_identity,
            doubtful=unsure,
        )
        images = run_images(spark, table, nets)
        if not images.bad:
            break
        doubtful |= Doubtful(frozenset(nets[i // 2].key for i in images.bad if _is_before(nets, i)))
        refused = [
            (_culprit(nets[i // 2], after=bool(i % 2)), reason)
            for i, reason in images.bad.items()
            if not _is_before(nets, i)
        ]
        letters += [_letter(table, event, reason) for event, reason in refused]
        gone = {(e.partition, e.offset) for e, _ in refused}
        events = [e for e in events if (e.partition, e.offset) not in gone]
    found.accounting.dead_letters = len(letters)
    changes, tombstones = _net_rows(table, nets, images, found.accounting)
    return _Applied(changes, tombstones, letters)


def _is_before(nets: Sequence[NetChange], image: int) -> bool:
    """Whether it is only of the row before a change: what cannot be read is looked up in the table."""
    return not image % 2 and nets[image // 2].before is not None


def _culprit(change: NetChange, *, after: bool) -> Event:
    """The event whose image is bad."""
    return change.events[-1] if after else change.events[0]


def _net_rows(
    table: StgTable, nets: list[NetChange], images: Images, accounting: Accounting
) -> tuple[pa.Table, pa.Table]:
    """The batch's net changes as table rows, stale and repeated events left out; and its tombstones."""
    schema = table.store.schema
    keys = [images.keys.get(2 * i + 1) or images.keys.get(2 * i) for i in range(len(nets))]
    unknown = [i for i, n in enumerate(nets) if not n.known_before]
    stored = _stored_rows(table, {keys[i] for i in unknown if keys[i] is not None})  # type: ignore[misc]
    old_stored: list[int] = []
    sequences: dict[Any, str] = {}
    buried: list[tuple[Any, ...]] = []
    for i, change in enumerate(nets):
        if change.known_before:
            accounting.folded += len(change.events) - 1
            held = change.before is not None
        else:
            was = stored.get(keys[i])  # type: ignore[arg-type]
            live = _newer(change.events, was, table)
            accounting.duplicate += len(change.events) - live
            if not live:
                continue
            accounting.folded += live - 1
            held = was is not None and was.index is not None
            if was is not None and was.index is not None:
                old_stored.append(was.index)
        sequences[keys[i]] = change.sequence
        if (column := _lacking(table, change)) is not None:
            raise unsent(table, column)
        if change.after is None and not held:
            buried.append((*keys[i], change.sequence))  # type: ignore[misc]
    before = _with_sequence(images.before, schema.key, {})
    if old_stored:
        source_rows = next(iter(stored.values())).rows
        before = pa.concat_tables([before, source_rows.take(pa.array(old_stored, pa.int64()))])
    after = semi_join(images.after, schema.key, set(sequences))  # without those of repeated events
    check_violations(after, table)
    after = _with_sequence(after, schema.key, sequences)
    changes = diff(before, after, schema, table=str(table.name))
    changes = _sequence_deletes(changes, schema.key, sequences)
    coming = {key for key, n in zip(keys, nets, strict=True) if n.after is not None}
    _account(accounting, changes, schema.key, set(sequences), coming, images)
    arrow = arrow_schema(schema.stored)
    tombstones = pa.schema([arrow.field(c) for c in (*schema.key, SEQUENCE)])
    rows = [dict(zip(tombstones.names, values, strict=True)) for values in buried]
    return changes, pa.Table.from_pylist(rows, schema=tombstones)


@dataclass(frozen=True)
class _Stored:
    """The table's row of a key: its sequence, and where it is (None: deleted)."""

    sequence: str
    index: int | None
    rows: pa.Table


def _stored_rows(table: StgTable, keys: KeySet) -> dict[tuple[Any, ...], _Stored]:
    """What the table holds for these keys: live rows, and tombstones for keys that were deleted."""
    if not keys or table.store.version == 0:
        return {}
    schema = table.store.schema
    rows = table.store.head().find(schema.key, keys)
    found = {
        k: _Stored(s, i, rows)
        for i, (k, s) in enumerate(
            zip(tuples(rows, schema.key), rows.column(SEQUENCE).to_pylist(), strict=True)
        )
    }
    absent = keys - set(found)
    for k, s in table.store.deletes.find(absent).items() if absent else ():
        found[k] = _Stored(s, None, rows)
    return found


def _lacking(table: StgTable, change: NetChange) -> str | None:
    """A column whose value the last event lacks. One that shows the row before has them all."""
    if change.after is None or (column := unsent_column(table.source.columns, change.after)) is None:
        return None
    return None if has_row_before(change.events[-1]) else column


def _newer(events: Sequence[Event], was: _Stored | None, table: StgTable) -> int:
    """How many of the key's events come after what the table has."""
    head = table.store.commit
    known = head.truncated if was is None else was.sequence
    return sum(1 for e in events if sequence(head.generation, e.lsn) > known)


def _with_sequence(rows: pa.Table, key: tuple[str, ...], sequences: dict[Any, str]) -> pa.Table:
    values = [sequences.get(k, "") for k in tuples(rows, key)]
    return rows.append_column(SEQUENCE, pa.array(values, pa.string()))


def _sequence_deletes(changes: pa.Table, key: tuple[str, ...], sequences: dict[Any, str]) -> pa.Table:
    """A deletion carries the sequence of the delete itself: the tombstone that blocks resurrection."""
    kinds, own = changes.column(KIND).to_pylist(), changes.column(SEQUENCE).to_pylist()
    marked = [
        sequences.get(k, s) if kind == DELETE else s
        for k, kind, s in zip(tuples(changes, key), kinds, own, strict=True)
    ]
    position = changes.schema.get_field_index(SEQUENCE)
    return changes.set_column(position, SEQUENCE, pa.array(marked, pa.string()))


def _account(
    accounting: Accounting,
    changes: pa.Table,
    key: tuple[str, ...],
    applied: KeySet,
    coming: Collection[tuple[Any, ...] | None],
    images: Images,
) -> None:
    """
    Args:
        applied: keys with an event that is newer than what the table has.
        coming: keys with a row after the batch.
    """
    kinds = changes.column(KIND).to_pylist()
    accounting.inserted = kinds.count(INSERT)
    accounting.updated = kinds.count(UPDATE_AFTER)
    accounting.deleted = kinds.count(DELETE)
    if not (same := applied - set(tuples(changes, key))):
        return
    out = (same & set(coming)) - set(tuples(images.after, key))
    accounting.unchanged = len(same) - len(out)
    accounting.leave_out(Counter(images.aside.get(k, "") for k in out))
