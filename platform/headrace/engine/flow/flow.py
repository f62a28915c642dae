"""A flow: one streaming query that advances a connected set of continuous tables by the same micro-batch.

Every table commits its own change with its own frontier. A table that is suspended or fails leaves the flow;
its neighbours go on, and it catches up from its recorded frontier when it comes back.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.engine.compaction.compaction import compact
from headrace.engine.flow.pace import Pace
from headrace.engine.flow.trailing import Trailing
from headrace.engine.ingest import offsets
from headrace.engine.ingest.cuts import Cut, Cuts
from headrace.engine.ingest.driver import ingest
from headrace.engine.ingest.gate import Gate, resting_upstreams
from headrace.engine.ingest.ingest import ingest_large
from headrace.engine.ingest.spark import Loaded
from headrace.engine.ingest.watermark import SourceTime
from headrace.engine.refresh.refresh import SMALL, refresh_table
from headrace.engine.spark.failpoints import failpoint
from headrace.engine.spark.prepared import Queries
from headrace.engine.spark.session import use_pool
from headrace.engine.spark.sessions import Sessions
from headrace.engine.table.table import Delta, Registry, Table
from headrace.errors import NeedsResync
from headrace.planner.policy.relief import LARGEST, BatchSize
from headrace.sources.dead_letters import DeadLetters
from headrace.sources.envelope import LAST_READ, Event
from headrace.sources.messages import Messages, read_once
from headrace.sources.postgres import MARKER_TABLE
from headrace.sources.topics import Topics
from headrace.spec.model import SourceTable, TableName
from headrace.store.live.head import Head
from headrace.store.record.frontier import Offsets, earliest_offsets

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

log = logging.getLogger(__name__)

QUIET_SECONDS = 3.0
"""After a start without a micro-batch the source has nothing new, and the derived tables catch up alone."""


WIDTH = 2
"""Tables refreshed at the same time: planning is a single-core matter."""


class Flow:
    """One supervised streaming query.

    Args:
        tables: its tables, upstreams first.
        on_failure: told of a table that left the flow, and why.
        directory: where checkpoints go; a restart begins anew from the tables' own frontiers.
    """

    def __init__(
        self,
        name: str,
        tables: list[Table],
        *,
        sessions: Sessions,
        registry: Registry,
        topics: Topics,
        bootstrap: str,
        dead_letters: DeadLetters,
        directory: Path,
        max_offsets: int,
        gate: Gate,
        on_failure: Callable[[Table, Exception], None],
    ) -> None:
        self.name = name
        self.tables = tables
        self.active: set[TableName] = set()
        self._lock = threading.RLock()
        self.run_id = uuid.uuid4().hex[:12]
        self.position: Offsets = {}
        self._sessions = sessions
        self._registry = registry
        self._topics = topics
        self._bootstrap = bootstrap
        self._dead_letters = dead_letters
        self._directory = directory / name
        self._max_offsets = max(max_offsets, LARGEST)
        self._gate = gate
        self._time = SourceTime(gate)
        self._on_failure = on_failure
        self._query: StreamingQuery | None = None
        self._checkpoint = self._directory
        self.cuts = Cuts()
        self._pool = ThreadPoolExecutor(
            WIDTH, f"flow-{name}", initializer=partial(use_pool, sessions.flow, "flow")
        )
        self._queries = Queries()
        self._messages = Messages(bootstrap)
        self._read_to: Offsets = {}
        self._unsettled: float | None = None
        self.loading: set[str] = set()  # topics whose tables are read for the first time
        self._hurried = False  # micro-batches do not wait for statements
        self.batch_size = BatchSize(max_offsets)  # messages whose changes are committed at once
        self.took: tuple[int, float] | None = None  # messages and seconds of the newest such step
        self._pace = Pace(tables, registry)
        ready = partial(use_pool, sessions.flow, "trailing")
        self._trailing = Trailing(name, ready, self._catch_up, self._trail_on)

    # -- life ---------------------------------------------------------------------------------------------

    def topic_names(self) -> list[str]:
        """Topics of the flow's stg tables, the marker and the transaction topic of each of their sources."""
        markers = {f"{s.source}.{s.schema}.{MARKER_TABLE}" for s in self.sources}
        return [*(s.topic for s in self.sources), *sorted(markers), *self._gate.topics]

    def start(self, active: Iterable[TableName]) -> None:
        """Start from the recorded frontiers. Raises NeedsResync where Kafka lost what comes next."""
        self.active = set(active)
        names = self.topic_names()
        self._topics.ensure(names)
        frontier: Offsets = {}
        for table in self.tables:
            if table.name in self.active and table.spec.source is not None:
                own = {table.spec.source.topic: table.store.commit.offsets.get(table.spec.source.topic, {})}
                frontier = earliest_offsets(frontier, own)  # of two tables of one topic
        self.position = self._topics.starting(frontier, names) | self._topics.ends(self._gate.topics)
        self._read_to = self.position
        self._gate.reset()
        shutil.rmtree(self._directory, ignore_errors=True)
        self._checkpoint = self._directory / uuid.uuid4().hex[:12]
        spark = self._sessions.flow
        stream = offsets.stream(spark, self._bootstrap, names, self.position, self._max_offsets)
        self._unsettled = time.monotonic()
        use_pool(spark, "flow")  # the streaming query's thread takes it from this one
        self._query = (
            stream.writeStream.queryName(f"{self.name}-{self.run_id}")
            .foreachBatch(self._process)
            .option("checkpointLocation", str(self._checkpoint))
            .trigger(processingTime=f"{int(1000 * self._pace.interval())} milliseconds")
            .start()
        )

    @property
    def sources(self) -> tuple[SourceTable, ...]:
        """The captured tables that its stg tables read."""
        return tuple(dict.fromkeys(t.spec.source for t in self.tables if t.spec.source is not None))

    def change(self, tables: list[Table]) -> bool:
        """Have these tables, upstreams first, with what they declare now. The stg tables stay the same.

        Returns:
            Whether it must be started again, for another interval between micro-batches.
        """
        with self._lock:
            self.tables = tables
            self.active &= {t.name for t in tables}
            interval, self._pace = self._pace.interval(), Pace(tables, self._registry)
            self._trailing.forget()
            self._trail_on()  # at the new pace, also where the source is silent
            return self._query is not None and self._pace.interval() != interval

    def stop(self) -> None:
        """Stop between two micro-batches: one that runs is finished, the next one finds nothing to do."""
        with self._lock:
            query, self._query = self._query, None
        if query is not None:
            query.stop()

    def close(self) -> None:
        self.stop()
        self.cuts.missed()
        self._pool.shutdown(wait=True)
        self._trailing.close()
        self._messages.close()

    def failure(self) -> str | None:
        """Why the streaming query itself ended, or None while it runs."""
        if self._query is None or self._query.isActive:
            return None
        error = self._query.exception()
        return str(error) if error is not None else "the streaming query ended"

    def settle(self) -> None:
        """Advance the derived tables without new source events: after a correction, or a table's return."""
        with self._lock:
            if self._query is not None:
                self._derived({}, -1)

    def settle_where_quiet(self) -> None:
        """`settle` after a start that no micro-batch followed: the first one advances every table itself."""
        if self._unsettled is None or time.monotonic() < self._unsettled + QUIET_SECONDS:
            return
        if self._lock.acquire(blocking=False):  # else a micro-batch is under way
            try:
                self._unsettled = None
                self.settle()
            finally:
                self._lock.release()

    def admit_late(self) -> None:
        """Apply what the gate lost patience with: a source that fell silent triggers no micro-batch."""
        if not self._gate.holds or not self._lock.acquire(blocking=False):
            return
        try:
            if self._query is not None:
                events, ends = self._gate.admit([], self._read_to)
                if events:
                    self._small(events, ends, -1)
                    self.position = ends
        finally:
            self._lock.release()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """While the block lasts the flow stands between two micro-batches."""
        with self._lock:
            yield

    def join(self, name: TableName) -> None:
        """Advance a table that stands where the flow does, from the next micro-batch on."""
        with self._lock:
            self.active.add(name)

    def leave(self, name: TableName) -> None:
        """Let a table stand still; its neighbours go on."""
        with self._lock:
            self.active.discard(name)

    def hurry(self, late: bool) -> None:
        """While a table of the flow is late, micro-batches do not wait for statements."""
        self._hurried = late

    @contextmanager
    def first_load(self, topics: Set[str]) -> Iterator[None]:
        """While the block lasts derived tables wait: these topics are read for the first time."""
        self.loading |= topics
        try:
            yield
        finally:
            self.loading -= topics

    # -- one micro-batch ----------------------------------------------------------------------------------

    def _process(self, _: DataFrame, batch_id: int) -> None:
        """Spark says how far the micro-batch goes; its messages are read by what suits their number."""
        if not (self.cuts.awaited or self._hurried):
            self._sessions.statements.wait(self._pace.pause())
        begun = time.monotonic()
        ends = offsets.end_offsets(self._checkpoint, batch_id)
        # Spark's share of each topic is not to the message.
        whole = 2 * offsets.size(self._read_to, ends) <= self._max_offsets
        while True:
            with self._lock:
                if self._query is None and batch_id > 0:
                    return  # stopping; the tables' frontiers say where to go on
                cut = offsets.towards(self._read_to, ends, self.batch_size.size)
                self._step(cut, batch_id, whole=whole and cut == ends)
            if cut == ends:
                break
        self._pace.ended(begun)
        log.debug("%s: batch %s in %.3f s", self.name, batch_id, time.monotonic() - begun)
        failpoint("flow.before_checkpoint")

    def _step(self, ends: Offsets, batch_id: int, *, whole: bool) -> None:
        """Commit what the topics have up to `ends`; `whole`: that was all when the micro-batch began."""
        begun, read = time.monotonic(), offsets.size(self._read_to, ends)
        if offsets.size(self.position, ends) <= SMALL:
            events = self._events(self._messages.read(self._read_to, ends))
            self._read_to = ends
            events, ends = self._gate.admit(events, ends)
            self._small(events, ends, batch_id)
            self._time.small(events, self.tables, self.active, whole=whole)
        else:
            self._read_to = ends
            self._gate.reset()
            self._large(ends, batch_id)
            self._time.large(self.tables, self.active, whole=whole)
        self.position, self._unsettled = ends, None
        self.took = read, time.monotonic() - begun

    def _small(self, events: list[Event], ends: Offsets, batch_id: int) -> None:
        for part in offsets.split(events, ends, self.cuts.marks(events)):
            known = self._stg(partial(self._ingest_part, part=part, batch_id=batch_id))
            self._derived(known, batch_id)
            for token in part.tokens:
                self.cuts.reached(token, Cut({t.name: t.store.version for t in self.tables}, part.offsets))

    def _ingest_part(self, table: Table, *, part: offsets.Part, batch_id: int) -> Delta | None:
        assert table.spec.source is not None
        topic = table.spec.source.topic
        events = part.events.get(topic)
        return self._ingest_events(table, events, {topic: part.offsets[topic]}, batch_id) if events else None

    def _ingest_events(self, table: Table, events: list[Event], end: Offsets, batch_id: int) -> Delta | None:
        if table.store.cold:
            compact(self._sessions.large, table, run_id=self.run_id)
        return ingest(
            self._sessions.flow, table, events, end, self._dead_letters, run_id=self.run_id, batch=batch_id
        )

    def _events(self, messages: pa.Table) -> list[Event]:
        """The messages' events; notes which topics stand within Debezium's snapshot."""
        events = offsets.collect(self._sessions.flow, self._queries, messages)
        for event in events:
            if event.op == "r" and event.snapshot not in LAST_READ:
                self.loading.add(event.topic)
            elif event.op is not None:
                self.loading.discard(event.topic)
        return events

    def _large(self, ends: Offsets, batch_id: int) -> None:
        def refresh(table: Table) -> Delta | None:
            found = self._ingest_large(table, ends, batch_id)
            if found is None:
                return None
            (self.loading.add if found.loading else self.loading.discard)(str(table.spec.source))
            return found.delta

        known = self._stg(refresh)
        self.cuts.missed()
        self._derived(known, batch_id)

    def _ingest_large(self, table: Table, ends: Offsets, batch_id: int) -> Loaded | None:
        """Read the table's own topic, from where the table is in it."""
        assert table.spec.source is not None
        topic = table.spec.source.topic
        done = table.store.commit.offsets.get(topic, {})
        start = {topic: {p: max(o, done.get(p, 0)) for p, o in self.position[topic].items()}}
        end = {topic: ends[topic]}
        if offsets.size(start, end) <= 0:
            return None
        if offsets.size(start, end) <= SMALL:
            events = self._events(read_once(self._bootstrap, start, end))
            delta = self._ingest_events(table, events, end, batch_id)
            return None if delta is None else Loaded(delta, loading=topic in self.loading)
        known = self._sessions, self._bootstrap, self._dead_letters
        return ingest_large(*known, table, start, end, run_id=self.run_id, batch=batch_id)

    def _stg(self, refresh: Callable[[Table], Delta | None]) -> dict[TableName, Delta]:
        return self._level([t for t in self.tables if t.spec.source is not None], refresh)

    def _derived(self, known: dict[TableName, Delta], batch_id: int) -> None:
        """Advance the derived tables, upstreams first, independent ones at the same time."""
        if self.loading:
            return  # the source is still being read for the first time: derive once, from all of it
        trailing = [t for t in self.tables if t.spec.source is None and self._pace.trails(t)]
        waiting = [t for t in self.tables if t.spec.source is None and t not in trailing]
        while waiting:
            names = {t.name for t in waiting}
            ready = [t for t in waiting if not names & set(self._registry.upstreams(t))]
            known = known | self._level(ready, partial(self._advance, known=known, batch_id=batch_id))
            waiting = [t for t in waiting if t not in ready]
        for table in trailing:
            self._trail(table)

    def _trail(self, table: Table) -> None:
        """Let the table catch up by itself, from the changelogs, as often as its own pace allows."""
        if self._query is not None and self._registry.behind(table):
            self._trailing.follow(table, self._pace.between(table))

    def _trail_on(self) -> None:
        for table in self.tables:
            if table.spec.source is None and table.name in self.active and self._pace.trails(table):
                self._trail(table)

    def _catch_up(self, table: Table) -> None:
        if table.name in self.active and self._query is not None:
            with self._lock:
                cut = resting_upstreams(self._registry, table)
            self._guarded(table, partial(self._advance, known={}, batch_id=-1, cut=cut))

    def _advance(
        self,
        table: Table,
        *,
        known: dict[TableName, Delta],
        batch_id: int,
        cut: Mapping[TableName, Head] | None = None,
    ) -> Delta | None:
        return refresh_table(
            self._sessions, self._registry, table, known, run_id=self.run_id, batch=batch_id, cut=cut
        )

    def _level(self, tables: list[Table], refresh: Callable[[Table], Delta | None]) -> dict[TableName, Delta]:
        futures = {
            table.name: self._pool.submit(self._guarded, table, refresh)
            for table in tables
            if table.name in self.active
        }
        found = {name: future.result() for name, future in futures.items()}
        return {name: delta for name, delta in found.items() if delta is not None}

    def _guarded(self, table: Table, refresh: Callable[[Table], Delta | None]) -> Delta | None:
        begun = time.monotonic()
        try:
            delta = refresh(table)
            seconds = time.monotonic() - begun
            if delta is not None:
                log.debug("%s: %s changes in %.3f s", table.name, delta.count, seconds)
                if delta.count <= SMALL:  # what takes long for its size says nothing of the table's pace
                    self._pace.took(table, seconds)
        except Exception as error:  # isolation: one table's failure is its own
            if not isinstance(error, NeedsResync):
                log.exception("%s left flow %s", table.name, self.name)
            self.active.discard(table.name)
            self._on_failure(table, error)
            return None
        if delta is not None:
            failpoint("flow.after_commit")
        return delta
