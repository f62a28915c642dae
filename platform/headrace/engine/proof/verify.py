"""Verification of many tables: derived ones at their frontiers, stg ones at a position of the source."""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotReached
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.engine.backfill.backfill import backfill
from headrace.engine.backfill.reread import Reread
from headrace.engine.flow.flow import Flow, flow_of
from headrace.engine.ingest.cuts import Cut, CutMissed
from headrace.engine.ingest.origins import Origins
from headrace.engine.ingest.source_rows import captured, offsets_after, part_rows, source_rows
from headrace.engine.proof.parity import compare, verify_batch, verify_topic
from headrace.engine.proof.repair import Repair
from headrace.engine.proof.room import Room
from headrace.engine.spark.meter import METER
from headrace.engine.spark.persisted import Persisted
from headrace.engine.spark.sessions import Sessions
from headrace.engine.table.table import Registry, StgTable, Table, is_stg
from headrace.errors import TerminalError, TransientError
from headrace.planner.policy.row_condition import RowCondition
from headrace.progress import Progress
from headrace.results import ParityResult, RefreshResult
from headrace.sources.database import database
from headrace.sources.marks import MARKER_TABLE
from headrace.sources.origin import Origin
from headrace.sources.part import Part
from headrace.sources.position import Position
from headrace.sources.stream.broker import Broker
from headrace.sources.stream.envelope import sequence
from headrace.sources.stream.topics import Topics
from headrace.spec.connector import Connector
from headrace.spec.partitions.label_range import LabelRange
from headrace.store.live.key_joins import tuples

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T", bound=Table)
Read = TypeVar("Read")

WIDTH = 2
"""Tables compared at the same time, one planned while the other runs; a single one where flows are busy."""

CUT_SECONDS = 60.0
"""How long a mark may take from the source's commit through a flow that does nothing meanwhile."""

BUSY_CUT_SECONDS = 300.0
"""The same through one that goes on: on a busy machine much may lie before the mark."""

LOOK_SECONDS, HALTED_SECONDS = 2.0, 10.0
"""Pause before the connector is looked at, and how long it must stand still: one that fails may be started
again by itself."""

ATTEMPTS = 3
"""A difference from the source counts where it is there at three positions: a message that Kafka acknowledged
out of order can make one cut look incomplete."""


MOST_KEYS = 500_000
"""Rows of a table that a condition may mean: the source is asked for them by their keys."""


def _where(rows: DataFrame, condition: RowCondition, key: Sequence[str]) -> pa.Table:
    """The keys of the rows that it holds for, one more than are taken at most."""
    from pyspark.errors import PySparkException

    try:
        return rows.where(condition.table).select(*key).distinct().limit(MOST_KEYS + 1).toArrow()
    except PySparkException as error:
        says = str(error).strip().splitlines()[0]
        raise TerminalError(f"Spark refuses the condition `{condition.table}`: {says}") from error


@dataclass(frozen=True)
class Proof:
    sessions: Sessions
    registry: Registry
    flows: list[Flow]
    dsn: Callable[[str], str]
    replica: Callable[[str], str | None]
    connector: Callable[[str], Connector]
    topics: Topics
    origins: Origins
    broker: Broker
    scratch: Path
    run_id: str
    dropped: Callable[[str], Collection[tuple[int, int]]] = lambda table: ()
    """Partition and offset of messages of a table's topic that are not to be applied."""

    told: Callable[[Sequence[ParityResult], LabelRange | None], None] = lambda results, labels: None
    """Hears what every comparison has found, and about which partitions it was."""

    def verify(
        self,
        tables: Sequence[Table],
        labels: LabelRange | None,
        *,
        source: bool,
        progress: Progress,
    ) -> list[ParityResult]:
        """One result per table and comparison, in the order of the tables."""
        stg = [t for t in tables if is_stg(t)] if source else []
        total = len(tables) + len(stg)
        batch = partial(self._batch, labels=labels)
        found = self._each(tables, batch, "its SQL in batch", progress, 0, total)
        against_source = self._against_source(stg, labels, progress, len(tables), total)
        progress.report("compared", total, total)
        results = [r for t in found for r in (t, against_source.get(t.table)) if r is not None]
        self.told(results, labels)
        return results

    def prove(self, table: Table, labels: LabelRange | None) -> list[ParityResult]:
        """A derived table against its SQL, a stg table against its source, which does not need its topic."""
        if is_stg(table):
            results = list(self._against_source([table], labels, Progress(), 0, 1).values())
        else:
            results = [self._batch(table, labels)]
        self.told(results, labels)
        return results

    def _batch(self, table: Table, labels: LabelRange | None) -> ParityResult:
        spark = self._session(table)
        if is_stg(table):
            left_out = self.dropped(str(table.name))
            return verify_topic(spark, table, self.broker, self.topics, labels, left_out=left_out)
        return verify_batch(spark, self.registry, table, labels)

    def _session(self, table: Table) -> SparkSession:
        """The one for small micro-batches, which compiles nothing, where few rows are computed from few."""
        read = [table, *self.registry.upstreams(table).values()]
        few = sum(t.store.commit.rows for t in read) <= table.limits.small
        return self.sessions.flow if few else self.sessions.batch

    def _each(
        self,
        tables: Sequence[T],
        compare_one: Callable[[T], ParityResult],
        against: str,
        progress: Progress,
        done: int,
        total: int,
    ) -> list[ParityResult]:
        """In the order of the tables; their Spark jobs belong to the statement of this thread."""
        from pyspark import inheritable_thread_target

        room = Room(WIDTH, lambda: any(flow.busy for flow in self.flows))

        def one(place: int, table: T) -> ParityResult:
            with room:
                progress.report(f"comparing {table.name} with {against}", done + place, total)
                with METER.of(table.name, "verify", self.run_id):
                    return compare_one(table)

        with ThreadPoolExecutor(WIDTH, "proof") as pool:
            # Each with its own copy of the thread's properties: Spark notes there which query runs.
            inherited = (inheritable_thread_target(self.sessions.batch)(one) for _ in tables)
            works = [
                pool.submit(work, i, t) for i, (work, t) in enumerate(zip(inherited, tables, strict=True))
            ]
            try:
                return [work.result() for work in works]
            finally:
                pool.shutdown(wait=False, cancel_futures=True)  # after a failure the others do not begin

    def _against_source(
        self,
        tables: Sequence[StgTable],
        labels: LabelRange | None,
        progress: Progress,
        done: int,
        total: int,
    ) -> dict[str, ParityResult]:
        found: dict[str, ParityResult] = {}
        names = {flow.name: {t.name for t in flow.tables} for flow in self.flows}
        sources = sorted({t.source.table.source for t in tables})
        for flow, source in itertools.product(self.flows, sources):
            waiting = [t for t in tables if t.name in names[flow.name] and t.source.table.source == source]
            for attempt in range(ATTEMPTS):
                if not waiting:
                    break
                try:
                    with self._cut(flow, waiting, compared=True) as (at, cut):
                        one = partial(self._compare, flow=flow, at=at, cut=cut, labels=labels)
                        known = done + len(found)
                        results = self._each(waiting, one, "its source", progress, known, total)
                        found |= {r.table: r for r in results}
                except CutMissed:
                    if attempt + 1 == ATTEMPTS:
                        raise
                    continue
                waiting = [t for t in waiting if not found[str(t.name)].equal]
        return found

    def _compare(
        self, table: StgTable, *, flow: Flow, at: Position, cut: Cut, labels: LabelRange | None
    ) -> ParityResult:
        table.store.reread()
        spark = self._session(table)
        with source_rows(spark, table, at, cut, self.scratch, labels) as expected:
            return self._compared(table, flow, at, cut, expected, labels=labels)

    def _compared(
        self,
        table: StgTable,
        flow: Flow,
        at: Position,
        cut: Cut,
        expected: DataFrame,
        *,
        labels: LabelRange | None = None,
        among: DataFrame | None = None,
    ) -> ParityResult:
        result = compare(
            expected.sparkSession,
            table,
            cut.versions[table.name],
            expected,
            labels=labels,
            among=among,
            against="source",
            frontier=table.store.commit.frontier,
            position=at.place,
        )
        if table.name not in flow.active:
            result.error = "the table does not run, so it stands behind the source"
        return result

    @contextmanager
    def _cut(
        self, flow: Flow, tables: Sequence[StgTable], *, compared: bool = False
    ) -> Iterator[tuple[Position, Cut]]:
        """A position of the source of some tables, and where all tables of the flow stand with it.

        Args:
            compared: nothing is taken from there: a standby may be read in the source's place.
        """
        [name] = {t.source.table.source for t in tables}
        captured = [t.source.table for t in flow.tables if is_stg(t) and t.source.table.source == name]
        token = uuid.uuid4().hex
        reached = flow.cuts.expect(token)
        try:
            schemas, replica = {s.schema for s in captured}, self.replica(name) if compared else None
            with database(self.dsn(name)).position(self.connector(name), schemas, token, replica) as at:
                yield at, await_cut(flow, reached, partial(self.origins.why_halted, name))
        finally:
            flow.cuts.forget(token)

    def repair(
        self,
        tables: Sequence[Table],
        labels: LabelRange | None,
        *,
        source: bool,
        follow: Callable[[Table], None],
        corrected: Callable[[Table], None],
        progress: Progress,
    ) -> list[ParityResult]:
        """As `verify`, and what differs is computed again and compared again. See `Repair`."""
        quiet = Progress()
        work = Repair(
            verify=lambda t: self.verify([t], labels, source=source, progress=quiet),
            refresh=lambda t, differing: self.refresh(t, differing, progress=progress),
            follow=follow,
            corrected=corrected,
        )
        return work.run(tables, progress)

    def refresh(self, table: Table, labels: LabelRange | None, *, progress: Progress) -> RefreshResult:
        """Backfill by the table's SQL or, for stg, from its source. Columns may be other than they were."""
        with METER.of(table.name, "backfill", self.run_id) as unit:
            if is_stg(table):
                result = self._refresh_from_source(table, labels, progress)
            else:
                result = backfill(
                    self.sessions,
                    self.registry,
                    table,
                    labels,
                    run_id=self.run_id,
                    progress=progress,
                )
            unit.changes = result.changes
        return result

    def compare_with_source(self, table: StgTable, where: RowCondition | None = None) -> ParityResult:
        """A stg table, which may rest, against its source at a new position.

        Args:
            where: compare only rows that it holds for in the table or in the source.
        """
        if where is None:
            [result] = self._against_source([table], None, Progress(), 0, 1).values()
            return result
        flow = self._flow(table)

        def read() -> ParityResult:
            with (
                self._cut(flow, [table], compared=True) as (at, cut),
                self._part(table, where, at, cut) as (expected, among),
            ):
                return self._compared(table, flow, at, cut, expected, among=among)

        return _until_reached(read)

    def refresh_where(self, table: StgTable, where: RowCondition, progress: Progress) -> RefreshResult:
        """Let the rows for which the condition holds, in the table or in its source, be those of the source.

        Raises:
            TerminalError: the table does not run.
        """
        flow = self._running(table)
        return _until_reached(lambda: self._read_again(flow, table, None, progress, where))

    @contextmanager
    def _part(
        self, table: StgTable, where: RowCondition, at: Position, cut: Cut
    ) -> Iterator[tuple[DataFrame, DataFrame]]:
        """What a table should hold of the keys that a condition means there or in its source; the keys."""
        at.check(table.source, where.source)
        table.store.reread()
        spark, key = self.sessions.batch, list(table.store.schema.key)
        held = table.store.frame(spark, version=cut.versions[table.name])
        keys = _where(held.select(*table.store.schema.names), where, key)
        if keys.num_rows > MOST_KEYS:
            raise TerminalError(
                f"the condition holds for more than {MOST_KEYS} rows of `{table.name}`. Next: "
                f"`headrace resync {table.name}` reads all of it, or a closer condition"
            )
        others = tuples(keys, table.store.schema.key)
        part = Part(where.source, table.source.key, others)
        with part_rows(spark, table, at, cut, self.scratch, part) as (rows, found), Persisted() as persist:
            yield persist(rows), persist(found)

    def captured(self, table: StgTable, key: tuple[Any, ...]) -> int:
        """Rows of a key in a stg table's source at a new position, up to which the table has come.

        Raises:
            TransientError: the position does not come through the table's flow.
        """
        flow, part = self._flow(table), Part("FALSE", table.source.key, [key])

        def read() -> int:
            with self._cut(flow, [table]) as (at, cut):
                return captured(self.sessions.batch, table, at, cut, self.scratch, part)

        return _until_reached(read)

    def quarantined(self, table: StgTable, labels: LabelRange | None = None) -> pa.Table:
        """The rows of a stg table's source that are in its quarantine, with the constraints they break."""
        flow = self._flow(table)

        def read() -> pa.Table:
            with self._cut(flow, [table]) as (at, cut):
                session = self._session(table)
                with source_rows(session, table, at, cut, self.scratch, labels, quarantine=True) as rows:
                    return rows.toArrow()

        return _until_reached(read)

    def _refresh_from_source(
        self, table: StgTable, labels: LabelRange | None, progress: Progress
    ) -> RefreshResult:
        """Backfill of a stg table: its range is read again from the source, at a known position.

        Of a table that rests all is read, and it goes on after that position.
        """
        flow = self._flow(table) if labels is None else self._running(table)
        if table.name not in flow.active:
            source = table.source.table.source
            reading = [t for t in flow.tables if is_stg(t) and t.source.table.source == source]
            if self.origins.renew(table, reading):
                progress.report(f"{table.name}: its source's replication slot was made anew")
                flow.look_at_sources()
        return _until_reached(lambda: self._read_again(flow, table, labels, progress))

    def _flow(self, table: StgTable) -> Flow:
        flow = flow_of(self.flows, table.name)
        assert flow is not None, "a stg table is in one, running or not"
        return flow

    def _running(self, table: StgTable) -> Flow:
        """Its flow. Raises TerminalError where the table is not active in it."""
        flow = self._flow(table)
        if table.name not in flow.active:
            raise TerminalError(
                f"`{table.name}` does not run, so a part of it cannot be read again alone. "
                f"Next: `headrace resync {table.name}` reads all of it"
            )
        return flow

    @contextmanager
    def _expected(
        self, table: StgTable, labels: LabelRange | None, where: RowCondition | None, at: Position, cut: Cut
    ) -> Iterator[tuple[DataFrame, DataFrame | None]]:
        """What a table should hold at the cut, and of which keys that is; None: of all of the range."""
        if where is not None:
            with self._part(table, where, at, cut) as part:
                yield part
            return
        with source_rows(self.sessions.batch, table, at, cut, self.scratch, labels) as rows:
            yield rows, None

    def _read_again(
        self,
        flow: Flow,
        table: StgTable,
        labels: LabelRange | None,
        progress: Progress,
        where: RowCondition | None = None,
    ) -> RefreshResult:
        rests = table.name not in flow.active
        origin = self.origins.now(table) if rests else None
        with (
            self._cut(flow, [table]) as (at, cut),
            self._expected(table, labels, where, at, cut) as (expected, among),
        ):
            done = backfill(
                self.sessions,
                self.registry,
                table,
                labels,
                expected=expected,
                among=among,
                version=cut.versions[table.name],
                reread=_reread(table, at, cut, origin),
                run_id=self.run_id,
                progress=progress,
            )
        table.run.origin = origin or table.run.origin
        return done


def _reread(table: StgTable, at: Position, cut: Cut, origin: Origin | None) -> Reread:
    """
    Args:
        origin: what a table that rests counts in from now on; None for one that runs.
    """
    head = table.store.commit
    known = Origin.of(head.origin)
    # A source whose log is behind what was applied is another one than it was: an older copy of it.
    back = origin is not None and sequence(head.generation, at.lsn) < head.high
    generation = head.generation + back
    return Reread(
        sequence=sequence(generation, at.floor),
        high=sequence(generation, at.lsn),
        offsets={table.topic: offsets_after(cut, table.topic, at.seen)} if origin is not None else {},
        generation=generation,
        origin=origin.record() if origin is not None else head.origin,
        # What the topic has up to there may be of other columns.
        lost=head.template == table.template or known.columns != (origin or known).columns,
    )


def await_cut(flow: Flow, reached: Future[Cut], why_halted: Callable[[], str | None]) -> Cut:
    """The cut at a mark.

    Args:
        why_halted: asked now and then: why the mark cannot come, or None.
    Raises:
        TransientError: it does not come through the flow.
    """
    begun, made = time.monotonic(), -1
    since: float | None = None
    while flow.micro_batches != made and time.monotonic() < begun + BUSY_CUT_SECONDS:
        made, turn = flow.micro_batches, time.monotonic()
        while time.monotonic() < turn + CUT_SECONDS:
            with suppress(NotReached):
                return reached.result(timeout=LOOK_SECONDS)
            if (why := why_halted()) is None:
                since = None
            elif since is None:
                since = time.monotonic()
            elif time.monotonic() - since >= HALTED_SECONDS:
                raise TransientError(f"the source's position does not come: {why}")
    seconds = time.monotonic() - begun
    raise TransientError(
        f"the source's position did not come through flow {flow.name} in {seconds:.0f} s. "
        "Next: `headrace status` shows what stands still; where nothing does, the connector passes "
        f"no messages on, and needs a captured table {MARKER_TABLE}"
    )


def _until_reached(read: Callable[[], Read]) -> Read:
    """What is read at a position; the flow may pass it in a batch too large to be looked into."""
    for _ in range(ATTEMPTS - 1):
        try:
            return read()
        except CutMissed:
            continue
    return read()
