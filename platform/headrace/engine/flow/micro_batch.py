"""What a micro-batch does: messages up to a cut become changes of the stg tables, and these of the others."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from headrace.engine.flow.flow_tables import FlowTables
from headrace.engine.flow.traces import TRACES
from headrace.engine.ingest import offsets
from headrace.engine.ingest.boundary import Boundaries
from headrace.engine.ingest.cuts import Cuts
from headrace.engine.ingest.first_snapshot import began_anew, give_up, given_up, left_behind
from headrace.engine.ingest.gate import Gate
from headrace.engine.ingest.ingest import PIECE, ingest_events, ingest_range, reading_snapshot
from headrace.engine.ingest.refused import changed_columns
from headrace.engine.ingest.source_columns import SourceColumns
from headrace.engine.ingest.watermark import SourceTime
from headrace.engine.spark.meter import METER, SHARED
from headrace.engine.spark.prepared import Queries
from headrace.engine.spark.sessions import Sessions
from headrace.engine.table.table import Delta, StgTable, is_stg
from headrace.sources.stream.broker import Broker
from headrace.sources.stream.dead_letters import DeadLetters
from headrace.sources.stream.envelope import Event
from headrace.sources.stream.messages import Messages
from headrace.sources.stream.topics import Bounds
from headrace.spec.model import TableName
from headrace.store.record.commits import Commit
from headrace.store.record.frontier import Offsets, merge_offsets

if TYPE_CHECKING:
    import pyarrow as pa


class MicroBatch:
    """Where one flow is in its topics, and what brings it further. The caller sees that one runs at a time.

    Attributes:
        position: the cut up to which messages are applied.
        read_to: the cut up to which they are read; the gate holds what lies between.
        asked: the cut up to which a step was asked for; what lies between is read again once it is whole.
        loading: topics whose tables are read for the first time. Derived tables wait.
        loaded: topics of several partitions that are past the end of Debezium's snapshot, as far as is known:
            rows of it may still come, and nothing after them tells that they were the last.
        took: messages and seconds of the newest step.
        steps: how many there were.
        changed_at: when one last changed a table, by the monotonic clock.
    """

    def __init__(
        self,
        tables: FlowTables,
        *,
        sessions: Sessions,
        broker: Broker,
        columns: SourceColumns,
        dead_letters: DeadLetters,
        gate: Gate,
    ) -> None:
        self.tables = tables
        self.gate = gate
        self.cuts = Cuts()
        self.position: Offsets = {}
        self.read_to: Offsets = {}
        self.asked: Offsets = {}
        self.loading: set[str] = set()
        self.loaded: set[str] = set()
        self.took: tuple[int, float] | None = None
        self.steps = 0
        self.changed_at = -math.inf
        self._sessions = sessions
        self._broker = broker
        self._columns = columns
        self._dead_letters = dead_letters
        self._time = SourceTime(gate)
        self._queries = Queries()
        self._messages = Messages(broker)
        self._boundaries = Boundaries(broker)

    def begin(self, position: Offsets, low: Offsets, since_ms: Mapping[str, int]) -> None:
        """Go on from a cut.

        Args:
            low: the first offsets that the topics still hold.
            since_ms: of transaction topics: the commit time from which they are read.
        """
        self.position = self.read_to = self.asked = position
        self.loaded = {topic for topic, parts in position.items() if len(parts) > 1 and any(parts.values())}
        applied = {topic: self._newest(topic, low.get(topic, {})) for topic in self.gate.captured}
        self._boundaries.rest()
        self.gate.begin(applied, since_ms)

    def next_commit(self, topics: Iterable[str], position: Offsets, bounds: Bounds) -> int:
        """When the first message after a cut was committed at its source, milliseconds since 1970.

        Args:
            topics: those it is looked for in.
        Returns:
            0 where there is none yet.
        """
        places = [(t, p, at) for t in topics for p, at in position.get(t, {}).items()]
        first = (self._boundaries.first(t, at, bounds[t][p][1], p) for t, p, at in places)
        found = min((event.source_ms for event in first if event is not None), default=0)
        self._boundaries.rest()
        return found

    def _newest(self, topic: str, low: Mapping[int, int]) -> set[str]:
        """The transactions of the last events of a topic's partitions before the position."""
        cut = self.position.get(topic, {})
        last = (self._boundaries.last(topic, low.get(p, 0), at, p) for p, at in cut.items())
        return {found.transaction for found in last if found is not None and found.transaction is not None}

    def close(self) -> None:
        self.cuts.missed()
        self.tables.close()
        self._messages.close()
        self._boundaries.close()

    def step(self, ends: Offsets, *, whole: bool) -> None:
        """Commit what the topics have up to `ends`; `whole`: that was all when the micro-batch began.

        What is committed has the number of the step among those of the run: one of Spark's micro-batches has
        several, and Spark counts anew after each start of the flow.
        """
        step, begun = self.steps, time.time_ns()
        with METER.of(SHARED, "stream", self.tables.run_id):
            self._step(ends, whole=whole)
        TRACES.micro_batch(self.tables.flow, self.tables.run_id, step, begun, self.tables.refreshed())

    def _step(self, ends: Offsets, *, whole: bool) -> None:
        batch_id = self.steps
        begun, read = time.monotonic(), offsets.size(self.read_to, ends)
        self._look_at_columns(ends)
        self.asked = ends
        if offsets.size(self.position, ends) <= self.tables.limits.small:
            events = self._events(self._messages.read(self.read_to, ends))
            self.read_to = ends
            events, ends = self.gate.admit(events, ends)
            self._small(events, ends, batch_id)
            self._time.small(events, self.tables.all, self.tables.active, whole=whole)
        else:
            ends = self._whole(ends)
            self.read_to = ends
            if any(ends[t] != self.position.get(t) for t in ends if t not in self.gate.topics):
                self._large(ends, batch_id)
            self._time.large(self.tables.all, self.tables.active, whole=whole and ends == self.asked)
            self._time.small((), self.tables.all, self.tables.active, whole=whole)
        self.position = ends
        self.steps += 1
        self.took = read, time.monotonic() - begun

    def heard(self) -> Offsets | None:
        """The cut that the topics have reached, as far as its reader has heard; None where it has read other
        topics since. Any thread may ask."""
        asked, there = self.asked, self._messages.there()
        places = {topic: parts.keys() for topic, parts in there.items()}
        if not there or places != {topic: parts.keys() for topic, parts in asked.items()}:
            return None
        return merge_offsets(asked, there)

    def _whole(self, ends: Offsets) -> Offsets:
        """The last cut up to another one that no transaction lies across, as far as these are announced.

        It holds for topics of one partition, where events are in the order of commits.
        """
        announced = {}
        for topic in self.gate.topics:
            cut = {topic: ends[topic]}
            pieces = (self._messages.read(*step) for step in offsets.steps(self.read_to, cut, PIECE))
            announced[topic] = (v for piece in pieces for v in piece.column("value").to_pylist())
        begin = {t: self.position[t][0] for t in self.gate.captured if set(ends.get(t, {})) == {0}}
        last = {t: found for t, at in begin.items() if (found := self._boundaries.last(t, at, ends[t][0]))}
        self.gate.whole(announced, last)
        cut = dict(ends)
        for topic, found in last.items():
            if not self.gate.done(topic, found):
                done = partial(self.gate.done, topic)
                cut[topic] = {0: self._boundaries.through(topic, begin[topic], ends[topic][0], done)}
        self._boundaries.rest()
        return cut

    def _look_at_columns(self, ends: Offsets) -> None:
        """Let tables leave whose new messages may have other columns than they know."""
        new = {topic for topic, at in ends.items() if at != self.read_to.get(topic)}
        reading = [t for t in self.tables.all if is_stg(t) and t.name in self.tables.active]
        changed = self._columns.look([t for t in reading if t.topic in new])
        for table in (t for t in reading if t.name in changed):
            self.tables.left(table, changed_columns(table, changed[table.name]))

    def admit_late(self) -> None:
        """Apply what the gate lost patience with."""
        if self.asked != self.read_to:
            self.step(self.asked, whole=False)
            return
        events, ends = self.gate.admit([], self.read_to)
        if events:
            self._small(events, ends, -1)
            self.position = ends

    @property
    def waits(self) -> bool:
        """Whether messages that are there are not applied."""
        return self.gate.holds or self.asked != self.read_to

    def derive(self, known: dict[TableName, Delta], batch_id: int) -> None:
        """Advance the derived tables; while the source is read for the first time they wait for all of it."""
        if known:
            self.changed_at = time.monotonic()
        if not self.loading:
            self.tables.derive(known, batch_id)
        self.tables.stepped()

    def _small(self, events: list[Event], ends: Offsets, batch_id: int) -> None:
        ingest = partial(self._ingest_small, events=offsets.by_topic(events), ends=ends, batch_id=batch_id)
        self.derive(self._ingest(ingest), batch_id)
        self.cuts.applied(
            events, ends, self.gate.held, lambda: {t.name: t.store.version for t in self.tables.all}
        )

    def _ingest(self, ingest: Callable[[StgTable], Delta | None]) -> dict[TableName, Delta]:
        reading = self._reading()
        if not self.steps:  # it may have been killed between two tables' commits
            self._leave_behind(reading, {})
        before = {t.name: t.store.commit for t in reading}
        known = self.tables.ingest(ingest)
        if any(t.store.commit.snapshot != before[t.name].snapshot for t in reading):
            self._leave_behind(reading, before)
        return known

    def _reading(self) -> list[StgTable]:
        """The stg tables that are in the flow; one that was given up leaves it."""
        reading = [t for t in self.tables.all if is_stg(t) and t.name in self.tables.active]
        for table in filter(given_up, reading):
            self.tables.left(table, began_anew(table))
        return [t for t in reading if not given_up(t)]

    def _leave_behind(self, tables: list[StgTable], before: Mapping[TableName, Commit]) -> None:
        """Let tables leave that hold rows of a first snapshot that was given up."""
        for source in {t.source.table.source for t in tables}:
            own = [t for t in tables if t.source.table.source == source]
            known = {t.name: before[t.name] for t in own if before}
            for table in left_behind(own, known):
                give_up(table, self.tables.run_id)
                self.tables.left(table, began_anew(table))

    def _ingest_small(
        self, table: StgTable, *, events: Mapping[str, list[Event]], ends: Offsets, batch_id: int
    ) -> Delta | None:
        topic = table.topic
        own = events.get(topic)
        if not own:
            return None
        end = {topic: ends[topic]}
        return ingest_events(
            self._sessions, self._dead_letters, table, own, end, run_id=self.tables.run_id, batch=batch_id
        )

    def _events(self, messages: pa.Table) -> list[Event]:
        """The messages' events; notes which topics stand within Debezium's snapshot."""
        events = offsets.collect(self._sessions.flow, self._queries, messages)
        for topic, loading in reading_snapshot(events).items():
            self._note(topic, loading=loading)
        return events

    def _note(self, topic: str, *, loading: bool) -> None:
        if loading and topic not in self.loaded:
            self.loading.add(topic)
            return
        self.loading.discard(topic)
        if len(self.asked[topic]) > 1:
            self.loaded.add(topic)

    def _large(self, ends: Offsets, batch_id: int) -> None:
        known = self._ingest(partial(self._ingest_large, ends=ends, batch_id=batch_id))
        self.cuts.missed()
        self.derive(known, batch_id)

    def _ingest_large(self, table: StgTable, *, ends: Offsets, batch_id: int) -> Delta | None:
        """Read the table's own topic, from where the table is in it."""
        topic = table.topic
        done = table.store.commit.offsets.get(topic, {})
        start = {topic: {p: max(o, done.get(p, 0)) for p, o in self.position[topic].items()}}
        found = ingest_range(
            self._sessions,
            self._broker,
            self._dead_letters,
            table,
            start,
            {topic: ends[topic]},
            run_id=self.tables.run_id,
            batch=batch_id,
        )
        if found is None:
            return None
        self._note(topic, loading=found.loading)
        return found.delta
