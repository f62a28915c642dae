"""Ingesting a part of one topic, for a flow or a table that catches up: in the first place that it fits."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing

from headrace.engine.compaction.compaction import compact
from headrace.engine.ingest import offsets
from headrace.engine.ingest.arrow import ingest_local, local_query
from headrace.engine.ingest.driver import ingest
from headrace.engine.ingest.refused import check_files
from headrace.engine.ingest.spark import Loaded, ingest_frame
from headrace.engine.spark.sessions import Sessions
from headrace.engine.table.table import Delta, StgTable
from headrace.sources.stream.broker import Broker
from headrace.sources.stream.dead_letters import DeadLetters
from headrace.sources.stream.envelope import LAST_READ, Event
from headrace.sources.stream.messages import RAW, Messages, of_events, read_once
from headrace.store.frames import local
from headrace.store.record.frontier import Offsets, covers

PIECE = 50_000
"""Messages that the driver holds undecoded."""


def ingest_range(
    sessions: Sessions,
    broker: Broker,
    dead_letters: DeadLetters,
    table: StgTable,
    start: Offsets,
    end: Offsets,
    *,
    run_id: str,
    batch: int,
) -> Loaded | None:
    """Commit what the stg table's topic has between two cuts. None where that is nothing.

    Raises:
        NeedsResync: a value was not sent.
        SourceChanged: the table's files have other columns than it.
    """
    count = offsets.size(start, end)
    if count <= 0:
        return None
    check_files(table)
    if count <= table.limits.small:
        events = offsets.collect(sessions.flow, table.run.queries, read_once(broker, start, end))
        delta = ingest_events(sessions, dead_letters, table, events, end, run_id=run_id, batch=batch)
        return Loaded(delta, loading=any(reading_snapshot(events).values()))
    if count <= table.limits.messages and (query := local_query(table)) is not None:
        with closing(Messages(broker)) as consumer:
            pieces = (consumer.read(*step) for step in offsets.steps(start, end, PIECE))
            found = ingest_local(sessions.flow, table, query, pieces, end, run_id=run_id, batch=batch)
        if found is not None:
            return found
    frame = offsets.read(sessions.large, broker, start, end)
    return ingest_frame(sessions.large, table, frame, end, dead_letters, run_id=run_id, batch=batch)


def ingest_events(
    sessions: Sessions,
    dead_letters: DeadLetters,
    table: StgTable,
    events: list[Event],
    end: Offsets,
    *,
    run_id: str,
    batch: int,
) -> Delta | None:
    """Commit a few events of the stg table's topic, which end at a cut. As `ingest.driver.ingest`.

    A TRUNCATE is about all rows of the table, which may be too many for the driver.
    """
    check_files(table)
    if table.store.cold:
        compact(sessions.large, table, run_id=run_id)
    if any(event.truncates for event in events):
        done = table.store.commit.offsets
        fresh = [e for e in events if not covers(done, e.topic, e.partition, e.offset)]
        frame = local(sessions.large, of_events(fresh), RAW)
        return ingest_frame(sessions.large, table, frame, end, dead_letters, run_id=run_id, batch=batch).delta
    return ingest(sessions.flow, table, events, end, dead_letters, run_id=run_id, batch=batch)


def reading_snapshot(events: Iterable[Event]) -> dict[str, bool]:
    """Whether each topic with an event stands within Debezium's snapshot after these.

    Only within a partition are events in order: the snapshot's last row says of all that it has ended.
    """
    last: dict[tuple[str, int], Event] = {}
    ended: set[str] = set()
    for event in events:
        if event.op is not None:
            last[event.topic, event.partition] = event
            ended |= {event.topic} if event.snapshot in LAST_READ else set()
    reading = {topic for (topic, _), event in last.items() if event.op == "r"} - ended
    return {topic: topic in reading for topic, _ in last}
