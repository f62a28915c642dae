"""Keeps flows running and tables where their owners want them: desired against observed state."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from headrace.catalog import Catalog
from headrace.engine.compaction.compaction import compact
from headrace.engine.compaction.maintenance import optimize
from headrace.engine.compaction.retention import Limits, record_progress, retain
from headrace.engine.flow.arrangement import Arrangement
from headrace.engine.flow.flow import Flow, flow_of
from headrace.engine.flow.freshness.monitor import Watch
from headrace.engine.flow.rejoin import CatchUp
from headrace.engine.ingest.source_watch import SourceWatch
from headrace.engine.read.views import Views
from headrace.engine.spark.session import use_pool
from headrace.engine.spark.sessions import Sessions
from headrace.engine.supervisor.admission import Admission
from headrace.engine.supervisor.failures import Failures, text
from headrace.engine.supervisor.schedule import Refreshes, outdated
from headrace.engine.table.immutable import follow_declared
from headrace.engine.table.table import Registry, Table, is_stg
from headrace.errors import HeadraceError, TerminalError
from headrace.locks import OrderedLock, Rank
from headrace.planner.policy.flows import FlowPlan
from headrace.settings import Settings
from headrace.sources.health import Alert, Level
from headrace.spec import Project
from headrace.spec.model import TableName
from headrace.ticking import Ticking

log = logging.getLogger(__name__)

TICK = 0.5
"""Seconds between two looks at the flows."""

MAINTENANCE_SECONDS, RESTING_SECONDS = 30.0, 600.0
"""Between two looks at the files and logs of a table that changes, and of one that rests."""

SOURCES_SECONDS = 10.0
"""Seconds between two looks at what the stg tables read."""

RETENTION_SECONDS = 3600.0
"""Seconds between two runs of retention over a table."""

TAIL_ROWS = 20_000
"""Changed keys after which a table is compacted before its interval is over."""


@dataclass
class Supervisor:
    """Threads that reconcile, compact, let the workflow scheduler refresh and keep files in bounds.

    Args:
        arrangement: the flows, and the tables that no flow advances: INCREMENTAL and FULL ones.
        advance: refreshes a table that no flow advances.
        held: raises TerminalError while the flows must stay as they are.
        sources: looks after what the stg tables read.
        abandoned: what to say of abandoned readers, by table.
    """

    arrangement: Arrangement
    registry: Registry
    settings: Settings
    catalog: Catalog
    sessions: Sessions
    views: Views
    catch_up: CatchUp
    admission: Admission
    failures: Failures
    advance: Callable[[Table], None]
    held: Callable[[], None]
    sources: SourceWatch
    abandoned: dict[TableName, list[str]] = field(default_factory=dict)

    declaring: OrderedLock = field(default_factory=lambda: OrderedLock(Rank.DECLARE, "the supervisor"))
    """Held by who changes what is declared; taken before `arranging`."""

    arranging: OrderedLock = field(default_factory=lambda: OrderedLock(Rank.ARRANGE, "the supervisor"))
    _retained: dict[TableName, float] = field(init=False, default_factory=dict)
    _optimized: dict[TableName, tuple[tuple[int, int], float]] = field(init=False, default_factory=dict)
    _compacted: dict[TableName, float] = field(init=False, default_factory=dict)
    _stop: threading.Event = field(init=False, default_factory=threading.Event)
    _loops: list[Ticking] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.refreshes = Refreshes(
            self.settings.scheduler,
            self.registry,
            self.catalog,
            self.arrangement.scheduled,
            advance=self.advance,
            failed=self.failures.observe,
            rests=lambda name: self._stop.is_set() or not self.admission.wanted(name),
        )
        self.watch = Watch(self.catalog.decisions)

    @property
    def flows(self) -> list[Flow]:
        return self.arrangement.flows

    def warnings(self, table: Table) -> list[str]:
        """What `headrace status` says of the table beside its state."""
        late = [*self.watch.warnings(table.name), *self.refreshes.scheduler.warnings(table.name)]
        flow = flow_of(self.flows, table.name)
        if flow is not None and (stretch := flow.stretch(table.name)) > 1:
            late.append(
                "gives way: more is declared than this machine can do. Tighter ones keep theirs, it may "
                f"be {stretch:.1f} times as late as it declares. Next: a looser FRESHNESS, here or there"
            )
        late += [alert.text for alert in self._alerts(table) if alert.level is Level.WARNING]
        return [*late, *self.abandoned.get(table.name, [])]

    def alarms(self, table: Table) -> list[str]:
        """What makes the table late, or loses its input if nobody acts."""
        return [alert.text for alert in self._alerts(table) if alert.level is Level.ALARM]

    def _alerts(self, table: Table) -> list[Alert]:
        return self.sources.alerts(table.source.table.source) if is_stg(table) else []

    def start(self) -> None:
        """Start every flow with the tables that are desired to run, then watch."""
        with self.arranging:  # the server answers by now: no table is suspended while its flow starts
            for flow in self.flows:
                self._start_flow(flow)
        batch = partial(use_pool, self.sessions.batch, "batch")
        self._loops = [
            Ticking("watch", self._watch, TICK),
            Ticking("watch_sources", self._watch_sources, SOURCES_SECONDS),
            Ticking("compact", self._compact, TICK, ready=batch),
            Ticking("schedule", self._schedule, TICK, ready=batch),
            Ticking("maintain", self._maintain, MAINTENANCE_SECONDS),
            Ticking("follow_calendars", self._follow_calendars, TICK, ready=batch),
        ]
        for loop in self._loops:
            loop.start()

    def stop(self) -> None:
        self._stop.set()
        for loop in self._loops:
            loop.stop()
        for flow in self.flows:
            flow.close()

    # -- one table ----------------------------------------------------------------------------------------

    def suspend(self, flow: Flow | None, table: Table) -> None:
        with self.arranging:
            if flow is not None:
                flow.leave(table.name)
            else:
                self.refreshes.suspend(table)
            self.failures.forget(str(table.name))
            self.catalog.observe(table.name, "SUSPENDED")

    def resume(self, flow: Flow | None, table: Table) -> None:
        """Bring a table back. Raises what keeps it out."""
        try:
            if (why := outdated(table)) is not None:
                raise TerminalError(f"`{table.name}`: {why}")
            if flow is not None:
                self.catch_up.rejoin(flow, table)
            else:
                self.refreshes.resume(table)
        except Exception as error:
            self.failures.failed(table, error)
            raise
        runs = self.failures.runs(table, {table.name} if flow is None else flow.active)
        if not runs:  # its first step has made it leave again
            raise TerminalError(self.catalog.row(table.name).error or f"`{table.name}` has left its flow")

    def runs(self, flow: Flow | None, table: Table) -> bool:
        """Whether the table is neither suspended nor out of its flow."""
        if flow is not None:
            return table.name in flow.active
        return self.catalog.desired(table.name) == "RUNNING"

    # -- flows --------------------------------------------------------------------------------------------

    def declare(self, project: Project) -> list[Table]:
        """Follow other declarations: tables join or leave flows, or go at another pace.

        Nothing is lost and nothing comes twice: every table goes on from its recorded frontier. The registry
        has the project's tables.

        Returns:
            The tables that have another mode now.
        """
        with self.declaring:
            return self._declare(project)

    def _declare(self, project: Project) -> list[Table]:
        moved = self.arrangement.declare(project, self.watch.actuators.measured)
        for table in self.registry:
            self.catalog.register(table.spec, table.mode, table.mode_reason)
        streaming = self.arrangement.unschedule()
        self.refreshes.agree()
        for table in streaming:
            self._come_near(table)
        with self.arranging:
            plans = self.arrangement.plans()
            for flow in self.arrangement.end(plans):
                self.failures.forget(flow.name)
                flow.close()
            for plan in plans:
                self._arrange(plan)
            for table in self.arrangement.schedule():
                log.info("%s is refreshed on a schedule: %s", table.name, table.mode_reason)
        self.refreshes.agree()
        return moved

    def _follow_calendars(self) -> None:
        """Declare anew what is declared, when a calendar or what is measured says something else of it."""
        try:
            with self.declaring:
                if self.arrangement.turned(self.watch.actuators.measured):
                    self.held()
                    self.declare(self.arrangement.project)
        except TerminalError as error:
            log.debug("the calendars wait: %s", error)

    def _come_near(self, table: Table) -> None:
        """Refresh a table that will stream, so that its flow need not wait for what it lacks."""
        if not self.admission.wanted(table.name) or outdated(table) is not None:
            return
        try:
            self.advance(table)
        except Exception as error:  # its flow tries again
            log.warning("%s: %s", table.name, text(error))

    def _arrange(self, plan: FlowPlan) -> None:
        flow, new = self.arrangement.begin(plan)
        if new:
            self._start_flow(flow)
            return
        tables = [self.registry[name] for name in plan.tables]
        known = {id(table) for table in flow.tables}
        joining = [t for t in tables if id(t) not in known and self.admission.wanted(t.name)]
        if flow.change(tables):
            flow.stop()
            self._start_flow(flow)  # with those that join
            return
        for table in joining:
            try:
                self.resume(flow, table)
            except HeadraceError as error:
                log.warning("%s stays out of flow %s: %s", table.name, flow.name, error)

    def _start_flow(self, flow: Flow) -> None:
        running = []
        for table in flow.tables:
            if self.catalog.desired(table.name) == "SUSPENDED":
                self.catalog.observe(table.name, "SUSPENDED")
            elif table.name in self.admission.paused:
                self.catalog.observe(table.name, "INITIALIZING")
            elif (why := outdated(table)) is not None:
                self.catalog.observe(table.name, "FAILED", why)
            else:
                running.append(table)
        try:
            flow.start(t.name for t in running)
        except Exception as error:
            log.warning("flow %s does not start: %s", flow.name, text(error))
            self.failures.retry(flow.name)
            for table in running:
                if table.name in flow.active:  # one that has lost its input says so
                    self.catalog.observe(table.name, "FAILED", text(error))
            return
        self.failures.forget(flow.name)
        for table in running:
            self.failures.runs(table, flow.active)

    def _watch(self) -> None:
        with self.arranging:
            for flow in self.flows:
                try:
                    self._reconcile(flow)
                except Exception:
                    log.exception("flow %s", flow.name)
            self.watch.look(self.flows)
        follow_declared(self.registry, run_id="declared")

    def _watch_sources(self) -> None:
        self.sources.look(t.source.table.source for t in list(self.registry) if is_stg(t))
        for flow in list(self.flows):
            try:
                flow.look_at_sources()
            except Exception as error:
                log.warning("the sources of flow %s: %s", flow.name, text(error))

    def _reconcile(self, flow: Flow) -> None:
        failure = flow.failure()
        if failure is not None and not self.failures.waiting(flow.name):
            log.warning("flow %s ended: %s", flow.name, failure.splitlines()[0])
            flow.stop()
            for table in flow.tables:
                if table.name in flow.active:
                    self.catalog.observe(table.name, "FAILED", failure.splitlines()[0])
            self.failures.retry(flow.name)
        if self.failures.due(flow.name):
            for table in flow.tables:
                table.store.open()
                table.run.covered = {}
            self._start_flow(flow)
        flow.settle_where_quiet()
        flow.admit_late()
        for table in flow.tables:
            if self.failures.due(str(table.name)) and self.admission.wanted(table.name):
                try:
                    self.resume(flow, table)
                except HeadraceError as error:
                    log.warning("%s stays out of flow %s: %s", table.name, flow.name, error)

    # -- scheduled tables ---------------------------------------------------------------------------------

    def _schedule(self) -> None:
        """Let the workflow scheduler begin what is due."""
        self.refreshes.tick()
        freshness = {t.name: t.freshness for t in self.registry if t.freshness is not None}
        self.watch.actuators.unmet(self.refreshes.scheduler.unmet(), freshness)

    # -- compaction ---------------------------------------------------------------------------------------

    def _compact(self) -> None:
        for table in self.registry:
            if self._stop.is_set():
                return
            if self._wants_compaction(table):
                self.compact(table)

    def _maintain(self) -> None:
        for table in self.registry:
            if self._stop.is_set():
                return
            try:
                self._optimize(table)
                # The first time that long after the start: a restart goes on with the same versions.
                last = self._retained.setdefault(table.name, time.monotonic())
                if time.monotonic() > last + RETENTION_SECONDS:
                    self._retained[table.name] = time.monotonic()
                    self._retain(table)
            except Exception:
                log.exception("maintenance of %s", table.name)

    def _optimize(self, table: Table) -> None:
        """Look at its files where they have changed since, or now and then: logs grow old by themselves."""
        now, last = time.monotonic(), self._optimized.get(table.name)
        state = (table.store.version, table.store.pin.delta)
        if last is None or last[0] != state or now > last[1] + RESTING_SECONDS:
            optimize(table, bound=self.settings.small_files)
            self._optimized[table.name] = (state, now)

    def _retain(self, table: Table) -> None:
        for reader in self.registry:
            if table.name in self.registry.upstreams(reader):
                record_progress(reader, run_id="retention")
        settings = self.settings
        limits = Limits(
            settings.changelog_retention_hours, settings.vacuum_hours, settings.reader_expiry_hours
        )
        self.abandoned[table.name] = retain(
            table, self.registry, self.catalog, limits, now=time.time(), renew=self.views.renew
        )

    def _wants_compaction(self, table: Table) -> bool:
        store = table.store
        if store.version <= store.pin.compacted or store.cold:
            return False
        last = self._compacted.setdefault(table.name, time.monotonic())
        interval = self.settings.compaction_interval_seconds * self.watch.giving_way
        return store.tail_rows > TAIL_ROWS or time.monotonic() - last > interval

    def compact(self, table: Table) -> None:
        """Bring the table's snapshot forward now. A failure is logged: the next interval tries again."""
        try:
            if compact(self.sessions.batch, table, run_id="compaction"):
                self.views.renew_if_old(table)
        except Exception:
            log.exception("compaction of %s", table.name)
        self._compacted[table.name] = time.monotonic()
