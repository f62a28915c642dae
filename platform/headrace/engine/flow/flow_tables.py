"""The tables of a flow: advanced level by level, each failure its own, slow and loose ones trailing."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from headrace.engine.flow.common_cuts import CommonCuts, Standing
from headrace.engine.flow.pace import Pace
from headrace.engine.flow.traces import TRACES, Refreshed
from headrace.engine.flow.trailing import Trailing
from headrace.engine.ingest.gate import resting_upstreams
from headrace.engine.refresh.refresh import refresh_table
from headrace.engine.spark.failpoints import failpoint
from headrace.engine.spark.meter import METER
from headrace.engine.spark.session import use_pool
from headrace.engine.spark.sessions import Sessions
from headrace.engine.table.table import Delta, Registry, StgTable, Table, is_stg
from headrace.errors import NeedsResync
from headrace.locks import OrderedLock, Rank
from headrace.spec.model import SourceTable, TableName
from headrace.store.live.head import Head

log = logging.getLogger(__name__)

T = TypeVar("T", bound=Table)

WIDTH = 2
"""Tables refreshed at the same time: planning is a single-core matter."""


class FlowTables:
    """What advances in one flow.

    Args:
        flow: the flow's name.
        tables: its tables, upstreams first.
        on_failure: told of a table that left the flow, and why.
    """

    def __init__(
        self,
        flow: str,
        tables: list[Table],
        *,
        sessions: Sessions,
        registry: Registry,
        on_failure: Callable[[Table, Exception], None],
    ) -> None:
        self.flow = flow
        self.all = tables
        self.names = {table.name for table in tables}
        self.active: set[TableName] = set()
        self.running = False
        self.lock = OrderedLock(Rank.FLOW, flow)
        """Held by who needs the flow between two micro-batches."""
        self.run_id = uuid.uuid4().hex[:12]
        self.limits = registry.limits
        self.pace = Pace(tables, registry)
        self.common = CommonCuts()
        self._refreshed: list[Refreshed] = []
        self._sessions = sessions
        self._registry = registry
        self._on_failure = on_failure
        self._pool = ThreadPoolExecutor(
            WIDTH, f"flow-{flow}", initializer=partial(use_pool, sessions.flow, "flow")
        )
        ready = partial(use_pool, sessions.flow, "trailing")
        self._trailing = Trailing(flow, ready, self._catch_up, self._trail_on)

    @property
    def sources(self) -> tuple[SourceTable, ...]:
        """The captured tables that the stg tables read."""
        return tuple(dict.fromkeys(t.source.table for t in self.all if is_stg(t)))

    def left(self, table: Table, error: Exception) -> None:
        """A table cannot go on; its neighbours do."""
        self.active.discard(table.name)
        self._on_failure(table, error)

    def change(self, tables: list[Table]) -> bool:
        """Take these, upstreams first. Returns whether they want another interval between micro-batches."""
        self.all, self.names = tables, {table.name for table in tables}
        self.active &= self.names
        interval, self.pace = self.pace.interval(), Pace(tables, self._registry)
        self._trailing.retain(t for t in tables if not is_stg(t) and self.pace.trails(t))
        self._trail_on()  # at the new pace, also where the source is silent
        return self.pace.interval() != interval

    def stretch(self, table: TableName) -> float:
        """How many times later than declared a trailing table may be, so that tighter ones keep theirs."""
        return self._trailing.stretch(table)

    def close(self) -> None:
        """Wait for what is under way; nothing follows."""
        self._pool.shutdown(wait=True)
        self._trailing.close()

    def refreshed(self) -> list[Refreshed]:
        """What micro-batches have changed since it was asked last, where traces are sent."""
        found, self._refreshed = self._refreshed, []
        return found

    def ingest(self, refresh: Callable[[StgTable], Delta | None]) -> dict[TableName, Delta]:
        """Advance the stg tables. Returns what has changed."""
        return self._level([t for t in self.all if is_stg(t)], refresh)

    def derive(self, known: dict[TableName, Delta], batch_id: int) -> None:
        """Advance the derived tables, upstreams first, independent ones at the same time.

        Args:
            known: changes of the stg tables.
        """
        derived = [t for t in self.all if not is_stg(t)]
        trailing = {t.name for t in derived if self.pace.trails(t)}
        waiting = {t.name: t for t in derived if t.name not in trailing}
        while waiting:
            ready = [t for t in waiting.values() if not waiting.keys() & self._registry.upstreams(t).keys()]
            lacking = [t for t in ready if self._lacks(t)]
            known = known | self._level(lacking, partial(self._refresh, known=known, batch_id=batch_id))
            for table in ready:
                del waiting[table.name]
        for table in derived:
            if table.name in trailing:
                self._trail(table)

    def stepped(self) -> None:
        """Note how all tables stand. The caller sees that no step is under way."""
        self.common.stepped((table.name, self._standing(table)) for table in self.all)

    def _standing(self, table: Table) -> Standing:
        commit, reached = table.standing()
        if table.name not in self.active:
            return Standing(commit.version, {})
        reads = self._registry.upstreams(table).keys() & self.names
        return Standing(commit.version, {name: reached.get(str(name), 0) for name in reads})

    def catch_up(self, names: Collection[TableName]) -> None:
        """Bring those of the tables that trail, and what they read of such, to one cut, where they stand
        before it."""
        wanted = set(names)
        with self.lock:
            trailing = [t for t in self.all if not is_stg(t) and self.pace.trails(t)]
            for table in reversed(trailing):
                if table.name in wanted:
                    wanted |= self._registry.upstreams(table).keys()
            heads = {table.name: table.warm_head() for table in self.all if table.name in wanted}
        for table in trailing:
            if table.name in wanted and table.name in self.active:
                reads = self._registry.upstreams(table)
                cut = {name: head for name in reads if (head := heads.get(name)) is not None}
                self._refresh_beside(table, cut)
                heads[table.name] = table.warm_head()

    def _lacks(self, table: Table) -> bool:
        """Whether a refresh may find anything to do: of very many tables few do in a micro-batch."""
        if self._registry.behind(table) > 0 or table.store.cold:  # which a refresh compacts first
            return True
        return not table.store.version and not table.run.covered  # an aggregate has a row over no rows

    def _trail(self, table: Table) -> None:
        """Let the table catch up by itself, from the changelogs, as often as its own pace allows."""
        if self.running and self._registry.behind(table):
            reads = [t for t in self._registry.upstreams(table).values() if t.name in self.names]
            self._trailing.follow(
                table,
                self.pace.freshness(table),
                reads_trailing=any(not is_stg(t) and self.pace.trails(t) for t in reads),
            )

    def _trail_on(self) -> None:
        for table in self.all:
            if not is_stg(table) and table.name in self.active and self.pace.trails(table):
                self._trail(table)

    def _catch_up(self, table: Table) -> None:
        if table.name in self.active and self.running:
            with self.lock:
                cut = resting_upstreams(self._registry, table)
            self._refresh_beside(table, cut)

    def _refresh_beside(self, table: Table, cut: Mapping[TableName, Head]) -> None:
        """Refresh a table outside its flow's micro-batches.

        Args:
            cut: its upstreams as they stood at one cut.
        """
        self._guarded(table, partial(self._refresh, known={}, batch_id=-1, cut=cut), beside=True)
        self.common.trailed(table.name, self._standing(table))

    def _refresh(
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

    def _level(self, tables: list[T], refresh: Callable[[T], Delta | None]) -> dict[TableName, Delta]:
        futures = {
            table.name: self._pool.submit(self._guarded, table, refresh)
            for table in tables
            if table.name in self.active
        }
        found = {name: future.result() for name, future in futures.items()}
        return {name: delta for name, delta in found.items() if delta is not None}

    def _guarded(
        self, table: T, refresh: Callable[[T], Delta | None], *, beside: bool = False
    ) -> Delta | None:
        begun, at = time.monotonic(), time.time_ns()
        try:
            with METER.of(table.name, "stream", self.run_id) as unit:
                delta = refresh(table)
                unit.changes = 0 if delta is None else delta.count
            seconds = time.monotonic() - begun
            if delta is not None and TRACES.active:
                done = Refreshed.of(table, delta, at)
                if beside:
                    TRACES.micro_batch(self.flow, self.run_id, -1, at, [done])
                else:
                    self._refreshed.append(done)
            if delta is not None:
                log.debug("%s: %s changes in %.3f s", table.name, delta.count, seconds)
                if (
                    delta.count <= table.limits.small
                ):  # what takes long for its size says nothing of the table's pace
                    self.pace.took(table, seconds)
        except Exception as error:  # isolation: one table's failure is its own
            if not isinstance(error, NeedsResync):
                log.exception("%s left flow %s", table.name, self.flow)
            self.left(table, error)
            return None
        if delta is not None:
            failpoint("flow.after_commit")
        return delta
