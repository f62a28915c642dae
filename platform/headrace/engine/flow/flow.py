"""A flow: one streaming query that advances a connected set of continuous tables by the same micro-batch.

Every table commits its own change with its own frontier. A table that is suspended or fails leaves the flow;
its neighbours go on, and it catches up from its recorded frontier when it comes back.
"""

from __future__ import annotations

import logging
import shutil
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.engine.flow.flow_tables import FlowTables
from headrace.engine.flow.micro_batch import MicroBatch
from headrace.engine.ingest import offsets
from headrace.engine.ingest.cuts import Cuts
from headrace.engine.ingest.origins import Origins
from headrace.engine.ingest.refused import changed_columns, lost_input
from headrace.engine.ingest.source_columns import SourceColumns
from headrace.engine.spark.failpoints import failpoint
from headrace.engine.spark.session import use_pool
from headrace.engine.spark.sessions import Sessions
from headrace.engine.table.table import Table, is_stg
from headrace.errors import HeadraceError, TransientError, raised
from headrace.planner.policy.relief import LARGEST, BatchSize
from headrace.sources.stream.broker import Broker
from headrace.sources.stream.topics import Bounds, Topics, ends, following, lost
from headrace.sources.stream.transactions import Transactions
from headrace.spec.model import SourceTable, TableName
from headrace.store.record.frontier import Offsets, earliest_offsets, merge_offsets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

log = logging.getLogger(__name__)

QUIET_SECONDS = 3.0
"""After a start without a micro-batch the source has nothing new, and the derived tables catch up alone."""

BEFORE_MS = 60_000
"""How much older than what its tables read next the transactions and marks are that a start begins with:
these topics may be long, and what lies further back is nobody's."""

MARKS = 100
"""Of a topic of marks at least so many are read again: the last one tells how far an idle source is."""

BUSY_SECONDS = 2.0
"""How long a change of its tables says that a flow is busy."""

LOOK_SECONDS, QUIET_LOOK_SECONDS = 0.01, 0.05
"""Pause between two looks at what the reader has heard, at least: of a busy flow, and of one that rests, of
which there may be many: heartbeats come to all."""

LOOK_SECONDS_EACH = 50e-6
"""The same for each partition: a look at one takes a few microseconds."""

CUT_ATTEMPTS = 5
"""How often trailing tables are brought to one cut, where each time one was taken further meanwhile."""

OPEN_SECONDS = 10.0
"""How long a micro-batch of Spark's goes on with what comes after it."""


class Flow:
    """One supervised streaming query. Others change it only by its methods.

    Args:
        tables: its tables, and what advances them.
        micro_batch: carries messages into them.
        directory: where checkpoints go; a restart begins anew from the tables' own frontiers.
        marks: topics by which marked positions of its sources arrive.
        max_offsets: messages of a micro-batch whose changes are committed at once, at first.
    """

    def __init__(
        self,
        tables: FlowTables,
        micro_batch: MicroBatch,
        *,
        sessions: Sessions,
        topics: Topics,
        origins: Origins,
        columns: SourceColumns,
        marks: Sequence[str],
        broker: Broker,
        directory: Path,
        max_offsets: int,
    ) -> None:
        self.name = tables.flow
        self.batch_size = BatchSize(max_offsets)
        self._tables = tables
        self._micro_batch = micro_batch
        self._lock = tables.lock
        self._sessions = sessions
        self._topics = topics
        self._origins = origins
        self._columns = columns
        self._marks = marks
        self._broker = broker
        self._directory = directory / self.name
        self._max_offsets = max(max_offsets, LARGEST)
        self._query: StreamingQuery | None = None
        self._checkpoint = self._directory
        self._unsettled: float | None = None
        self._hurried = False  # micro-batches do not wait for statements

    # -- what it is and where -----------------------------------------------------------------------------

    @property
    def tables(self) -> list[Table]:
        """Its tables, upstreams first."""
        return self._tables.all

    @property
    def names(self) -> set[TableName]:
        """Those of its tables."""
        return self._tables.names

    @property
    def active(self) -> set[TableName]:
        """The tables that it advances now."""
        return self._tables.active

    @property
    def sources(self) -> tuple[SourceTable, ...]:
        """The captured tables that its stg tables read."""
        return self._tables.sources

    @property
    def run_id(self) -> str:
        """What its commits are marked with."""
        return self._tables.run_id

    @property
    def position(self) -> Offsets:
        """The cut up to which messages are applied."""
        return self._micro_batch.position

    @property
    def cuts(self) -> Cuts:
        """Who waits for which position of the source."""
        return self._micro_batch.cuts

    @property
    def loading(self) -> set[str]:
        """Topics whose tables are read for the first time."""
        return self._micro_batch.loading

    def topic_names(self) -> list[str]:
        """Topics of the flow's stg tables, of marks and of the transactions of each of their sources."""
        return [*(s.topic for s in self.sources), *self._marks, *self._micro_batch.gate.topics]

    @property
    def micro_batches(self) -> int:
        """How many it has made."""
        return self._micro_batch.steps

    def stretch(self, table: TableName) -> float:
        """How many times later than declared the table may be now; 1 where it keeps its freshness."""
        return self._tables.stretch(table)

    def failure(self) -> str | None:
        """Why the streaming query itself ended, or None while it runs."""
        if self._query is None or self._query.isActive:
            return None
        error = self._query.exception()
        return raised(str(error)) if error is not None else "the streaming query ended"

    def newest_step(self) -> tuple[int, float] | None:
        """Messages and seconds of the newest step that nobody has asked for yet."""
        found, self._micro_batch.took = self._micro_batch.took, None
        return found

    @property
    def busy(self) -> bool:
        """Whether its tables change now, so that they feel what runs beside them."""
        return time.monotonic() - self._micro_batch.changed_at < BUSY_SECONDS

    # -- commands -----------------------------------------------------------------------------------------

    def start(self, active: Iterable[TableName]) -> None:
        """Start from the recorded frontiers.

        A table whose next events Kafka has lost leaves it: it is not `active` afterwards.
        """
        self._tables.active = set(active)
        names = self.topic_names()
        self._topics.ensure(names)
        bounds = self._topics.bounds(names)
        low = {t: {p: first for p, (first, _) in parts.items()} for t, parts in bounds.items()}
        position = self._starting(bounds)
        since = {s.topic: self._announced_since(s, position, bounds) for s in self._micro_batch.gate.sources}
        position |= self._beside(since, bounds)
        self._micro_batch.begin(position, low, since)
        shutil.rmtree(self._directory, ignore_errors=True)
        self._checkpoint = self._directory / uuid.uuid4().hex[:12]
        spark = self._sessions.flow
        stream = offsets.stream(spark, self._broker, names, self.position, self._max_offsets)
        self._unsettled = time.monotonic()
        use_pool(spark, "flow")  # the streaming query's thread takes it from this one
        self._query = (
            stream.writeStream.queryName(f"{self.name}-{self.run_id}")
            .foreachBatch(self.process)
            .option("checkpointLocation", str(self._checkpoint))
            .trigger(processingTime=f"{int(1000 * self._tables.pace.interval())} milliseconds")
            .start()
        )
        self._tables.running = True

    def _starting(self, bounds: Bounds) -> Offsets:
        """Where each topic is read from. Those that no active table reads begin with what is to come."""
        frontier: Offsets = {}
        reading = [t for t in self.tables if t.name in self.active and is_stg(t)]
        replaced = self._origins.look(reading)
        for table in reading:
            own = {table.topic: table.store.commit.offsets.get(table.topic, {})}
            gone = lost(own, {table.topic: bounds[table.topic]}).get(table.topic)
            if (why := replaced.get(table.name, gone)) is not None:
                self._tables.left(table, lost_input(table, why))
                continue
            frontier = earliest_offsets(frontier, own)  # of two tables of one topic
        resting = {t.topic for t in self.tables if is_stg(t)} - frontier.keys()
        return following(frontier, bounds) | {t: ends(bounds[t]) for t in resting}

    def _announced_since(self, source: Transactions, position: Offsets, bounds: Bounds) -> int:
        """The commit time from which its transactions are read: with what a kill left half applied.

        Returns:
            0 where its tables have nothing, and there is nothing for them yet.
        """
        stg = [t for t in self.tables if is_stg(t) and t.source.table.source == source.name]
        newest = max((t.store.commit.source_ms for t in stg), default=0)
        newest = newest or self._micro_batch.next_commit(source.captured, position, bounds)
        return max(0, newest - BEFORE_MS)

    def _beside(self, since: Mapping[str, int], bounds: Bounds) -> Offsets:
        """Where the topics of transactions and marks are read from.

        Args:
            since: of each topic of transactions.
        """
        lately = int(1000 * time.time()) - BEFORE_MS
        found: Offsets = {}
        for topic, moment in since.items():
            found |= self._topics.since({topic: bounds[topic]}, moment or lately)
        marks = self._topics.since({topic: bounds[topic] for topic in self._marks}, lately)
        for topic, parts in marks.items():
            least = {p: max(low, high - MARKS) for p, (low, high) in bounds[topic].items()}
            found[topic] = {p: min(at, least[p]) for p, at in parts.items()}
        return found

    def look_at_sources(self) -> None:
        """Let tables leave whose topic or server was replaced: what they have reached says nothing then.

        So do those whose source has other columns, although it may have no message of them yet.
        """
        reading = [t for t in self.tables if t.name in self.active and is_stg(t)]
        wrong: dict[TableName, HeadraceError] = {}
        changed, replaced = self._columns.look(reading), self._origins.look(reading)
        for table in reading:
            if table.name in replaced:
                wrong[table.name] = lost_input(table, replaced[table.name])
            elif table.name in changed:
                wrong[table.name] = changed_columns(table, changed[table.name])
        for table in (t for t in reading if t.name in wrong):
            with self._lock:
                if table.name in self.active:
                    self._tables.left(table, wrong[table.name])

    def change(self, tables: list[Table]) -> bool:
        """Have these tables, upstreams first, with what they declare now. The stg tables stay the same.

        Returns:
            Whether it must be started again, for another interval between micro-batches.
        """
        with self._lock:
            return self._tables.change(tables) and self._query is not None

    def stop(self) -> None:
        """Stop between two micro-batches: one that runs is finished, the next one finds nothing to do."""
        with self._lock:
            query, self._query = self._query, None
            self._tables.running = False
        if query is not None:
            query.stop()

    def close(self) -> None:
        self.stop()
        self._micro_batch.close()

    def settle(self) -> None:
        """Advance the derived tables without new source events: after a correction, or a table's return."""
        with self._lock:
            if self._query is not None:
                self._micro_batch.derive({}, -1)

    def settle_where_quiet(self) -> None:
        """`settle` after a start that no micro-batch followed: the first one advances every table itself."""
        if self._unsettled is None or time.monotonic() < self._unsettled + QUIET_SECONDS:
            return
        with self._rests() as rests:
            if rests:
                self._unsettled = None
                self.settle()

    def admit_late(self) -> None:
        """Apply what the gate lost patience with: a source that fell silent triggers no micro-batch."""
        if self._micro_batch.waits:
            with self._rests() as rests:
                if rests and self._query is not None:
                    self._micro_batch.admit_late()

    def common_cut(self, names: Collection[TableName]) -> dict[TableName, int]:
        """Versions of some of its active tables that stand at one cut: the newest that is remembered and no
        older than the tightest of them declares, else those that trail catch up.

        Raises:
            TransientError: there is none, although they did.
        """
        declared = (self._tables.pace.freshness(table) for table in self.tables if table.name in names)
        seconds = min(declared, default=0.0)  # none where they have just left the flow
        for _ in range(CUT_ATTEMPTS):
            with self._rests() as rests:
                if rests:  # where nothing comes, no step ends
                    self._tables.stepped()
            if (found := self._tables.common.newest(names, seconds)) is not None:
                return found
            self._tables.catch_up(names)
        tables = ", ".join(f"`{name}`" for name in sorted(names))
        raise TransientError(
            f"{tables} do not come to stand at one cut. Next: `headrace status` shows which is behind; "
            "`VERSION AS OF` after a name reads it at a version of its own"
        )

    @contextmanager
    def _rests(self) -> Iterator[bool]:
        """Whether no micro-batch is under way; then none begins while the block lasts."""
        rests = self._lock.acquire(blocking=False)
        try:
            yield rests
        finally:
            if rests:
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
        self._micro_batch.loading |= topics
        try:
            yield
        finally:
            self._micro_batch.loading -= topics

    def process(self, _: DataFrame | None, batch_id: int) -> None:
        """Spark says how far the micro-batch goes; its messages are read by what suits their number.

        What comes soon after is carried before it ends: Spark looks at the topics once an interval, and a
        change that comes alone need not wait for that.
        """
        batch, until = self._micro_batch, time.monotonic() + OPEN_SECONDS
        ends: Offsets | None = merge_offsets(batch.asked, offsets.end_offsets(self._checkpoint, batch_id))
        while ends is not None:
            begun = time.monotonic()
            if not self._carry(ends, batch_id):
                return
            ends = self._next(begun, until)
        failpoint("flow.before_checkpoint")

    def _carry(self, ends: Offsets, batch_id: int) -> bool:
        """Carry the messages up to a cut into the tables; false where the flow stops."""
        batch = self._micro_batch
        if not (self.cuts.awaited or self._hurried):
            self._sessions.statements.wait(self._tables.pace.pause())
        begun = time.monotonic()
        # Spark's share of each topic is not to the message.
        whole = 2 * offsets.size(batch.asked, ends) <= self._max_offsets
        while True:
            with self._lock:
                if self._query is None and batch_id > 0:
                    return False  # stopping; the tables' frontiers say where to go on
                cut = offsets.towards(batch.asked, ends, self.batch_size.size)
                batch.step(cut, whole=whole and cut == ends)
                self._unsettled = None
            if cut == ends:
                break
        self._tables.pace.ended(begun)
        log.debug("%s: batch %s in %.3f s", self.name, batch_id, time.monotonic() - begun)
        return True

    def _next(self, begun: float, until: float) -> Offsets | None:
        """The cut of the next messages, once it is their time; None where it is Spark's to look for them.

        Args:
            begun: when those before were begun, by the monotonic clock.
            until: when the last ones begin that belong to this micro-batch of Spark's.
        """
        batch = self._micro_batch
        # The end of a transaction whose beginning is there does not wait for the interval.
        due = begun + (0.0 if batch.waits else self._tables.pace.interval())
        came: float | None = None
        while self._query is not None and (now := time.monotonic()) < until:
            if (heard := batch.heard()) is None:
                return None
            if heard != batch.asked:
                came = now if came is None else came
                if now >= max(due, came + LOOK_SECONDS):  # messages of a transaction come together
                    return heard
            least = LOOK_SECONDS if self.busy else QUIET_LOOK_SECONDS
            time.sleep(max(least, LOOK_SECONDS_EACH * sum(map(len, heard.values()))))
        return None


def flow_of(flows: Iterable[Flow], name: TableName) -> Flow | None:
    """The flow that advances the table; None where none does."""
    return next((flow for flow in list(flows) if name in flow.names), None)
