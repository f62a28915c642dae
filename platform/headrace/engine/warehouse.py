"""The warehouse: everything that a statement can ask of it. One instance per server, holding the lease."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.catalog import Catalog
from headrace.engine import subscription, telling, views
from headrace.engine.advance import Sessions
from headrace.engine.alter import alter
from headrace.engine.apply import Apply
from headrace.engine.cascade import Cascade
from headrace.engine.catch_up import advance_beside
from headrace.engine.deployment import Deployment
from headrace.engine.flow import Flow
from headrace.engine.job_group import JobGroup
from headrace.engine.loads import Loads
from headrace.engine.proof import Proof
from headrace.engine.refreshing import of_another_text
from headrace.engine.rows import Span
from headrace.engine.session import batch_session, build_session, flow_session
from headrace.engine.startup import attempts, supervise
from headrace.engine.supervisor import Supervisor
from headrace.engine.table import Registry, Table
from headrace.errors import TerminalError, TransientError
from headrace.progress import Progress
from headrace.results import (
    AlterResult,
    ApplyResult,
    CascadeResult,
    ChangePage,
    ConstraintResult,
    Explanation,
    LoadResult,
    ParityResult,
    RefreshResult,
    TableStatus,
    WorkflowStatus,
)
from headrace.settings import Settings
from headrace.sources.dead_letters import DeadLetters
from headrace.sources.topics import Topics
from headrace.spec import Project
from headrace.spec.alteration import Property
from headrace.spec.edit import Edit, rollback
from headrace.spec.partitions import label_range
from headrace.store.frontier import Offsets
from headrace.store.lease import Lease

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from headrace.gateway.statements import Start

Edits = Callable[[Project], Edit]


class Warehouse:
    """Holds the lease, runs the flows, answers statements. Methods are thread-safe after `start`."""

    def __init__(self, project: Project, settings: Settings, catalog: Catalog) -> None:
        self._deployment = Deployment(project, settings, catalog)
        self._settings = settings
        self._catalog = catalog
        self._lease = Lease(settings.warehouse / "lease")
        self._run_id = uuid.uuid4().hex[:12]
        self._registry = Registry()
        self._flows: list[Flow] = []  # the arrangement's, once there is one
        self._supervisor: Supervisor | None = None
        self._waiting_for = "the source"
        self._stopping = threading.Event()
        self._starter: threading.Thread | None = None
        self._spark: SparkSession | None = None
        self._topics: Topics | None = None
        self._dead_letters = DeadLetters(settings.warehouse / "dead_letters")

    @property
    def project(self) -> Project:
        """The definitions that run, without what statements have altered."""
        return self._deployment.files

    # -- life ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Take the lease and start Spark; the tables follow as soon as their source is there.

        Raises:
            TerminalError: another process holds the lease.
        """
        self._lease.acquire()
        self._settings.state.mkdir(parents=True, exist_ok=True)
        self._spark = build_session(self._settings)
        self._sessions = Sessions(flow_session(self._spark), batch_session(self._spark))
        self._views = views.Views(self._spark)
        self._dead_letters.open()
        self._starter = threading.Thread(target=self._bring_up, name="bring-up", daemon=True)
        self._starter.start()

    def stop(self) -> None:
        """Stop the flows between two micro-batches, then Spark; free the lease."""
        self._stopping.set()
        if self._starter is not None:
            self._starter.join()
        if self._supervisor is not None:
            self._supervisor.stop()
        if self._topics is not None:
            self._topics.close()
        if self._spark is not None:
            self._views.join()
            self._spark.stop()
        self._lease.release()

    def _bring_up(self) -> None:
        def start() -> None:
            self._assemble(*self._deployment.assemble(self._sessions.batch, self._deployment.files))

        for why in attempts(start, self._stopping):
            self._waiting_for = why

    def _assemble(self, project: Project, registry: Registry) -> None:
        settings = self._settings
        for table in registry:
            table.store.create(table.template, table.spec.definition)
            table.store.open()
            # An apply that was cut short: nobody knows the shape that the rows have.
            table.begins_again = table.store.version > 0 and table.store.commit.template != table.template
            self._catalog.register(table.spec, table.mode, table.mode_reason)
        self._topics = self._topics or Topics(settings.kafka_bootstrap)
        self._supervisor = supervise(
            project,
            registry,
            settings,
            self._catalog,
            sessions=self._sessions,
            topics=self._topics,
            dead_letters=self._dead_letters,
            views=self._views,
            advance=self._advance,
            on_failure=lambda table, error: self._ready().failed(table, error),
        )
        self._flows = self._supervisor.flows
        self._loads = Loads(project, settings, self._sessions, self._flows, self._topics, self._views)
        self._supervisor.held = self._loads.refuse
        self._registry = registry
        self._supervisor.start()
        self._views.begin(registry, self._stopping)

    def _advance(self, table: Table) -> None:
        if of_another_text(table):
            self._refresh(table, None, None, Progress())
        advance_beside(self._sessions, self._registry, self._flows, table, run_id=self._run_id)

    # -- names --------------------------------------------------------------------------------------------

    def _table(self, name: str) -> Table:
        spec = self.project.table(name)
        if spec.name not in self._registry.tables:
            raise self._not_yet(f"`{name}` has")
        return self._registry[spec.name]

    def _not_yet(self, who: str) -> TransientError:
        return TransientError(f"{who} not started yet: {self._waiting_for}. Next: `headrace status`")

    def _flow(self, table: Table) -> Flow | None:
        """The table's flow, None where it is refreshed on a schedule."""
        return next((f for f in self._flows if table in f.tables), None)

    def _ready(self) -> Supervisor:
        if self._supervisor is None:
            raise self._not_yet("the tables have")
        return self._supervisor

    # -- statements ---------------------------------------------------------------------------------------

    def select(self, sql: str, *, limit: int | None = None) -> pa.Table:
        """Rows of a SELECT over live tables."""
        self._ready()
        frame = views.select(self._sessions.flow, self._registry, sql)
        return (frame if limit is None else frame.limit(limit)).toArrow()

    def _session(self) -> SparkSession:
        if self._spark is None:
            raise self._not_yet("the warehouse has")
        return self._spark

    def refresh(self, table: str, start: str | None, end: str | None, *, progress: Progress) -> RefreshResult:
        """INSERT OVERWRITE of the inclusive partition range, beside the running stream.

        Raises:
            SpecError: a bound of the wrong format, or start > end.
        """
        found = self._table(table)
        if start is not None and end is not None:
            label_range(found.spec, start, end)
            if found.store.version and found.store.commit.template != found.template:
                raise TerminalError(
                    f"the definition of `{table}` changed since version {found.store.version}: a part of it "
                    f"cannot follow the new text alone. Next: `headrace refresh {table} --all`"
                )
        with self._cancellable(progress):
            return self._refresh(found, start, end, progress)

    def cascade(
        self, table: str, start: str | None, end: str | None, *, dry_run: bool = False, progress: Progress
    ) -> CascadeResult:
        """`refresh` of the range, then of what it touches downstream; a dry run only says what that is."""
        watch = self._ready().watch
        work = Cascade(
            self.project,
            self._registry,
            lambda t, span: self.refresh(str(t.name), span.start, span.end, progress=progress),
            self._follow,
            self._proof().prove,
            self._settings.backfill_partitions_at_once,
            lambda: self._settings.backfill_pause_seconds * watch.giving_way,
        )
        with self._cancellable(progress):
            ends = None if start is None or end is None else (start, end)
            return work.run(self._table(table), ends, dry_run=dry_run, progress=progress)

    def refresh_new(self, table: str, turn: str | None, *, progress: Progress) -> RefreshResult:
        """Bring a table that no flow advances to its upstreams' versions, if the turn is still to come."""
        with self._cancellable(progress):
            return self._ready().refreshes.now(self._table(table), turn, progress)

    def workflows(self) -> list[WorkflowStatus]:
        """The refresh workflows of tables that no flow advances."""
        return self._ready().refreshes.scheduler.status()

    def _refresh(self, table: Table, start: str | None, end: str | None, progress: Progress) -> RefreshResult:
        supervisor = self._ready()
        result = self._proof().refresh(table, Span(start, end), progress=progress)
        self._corrected(table, changed=bool(result.inserted or result.updated or result.deleted))
        if start is None and self._catalog.row(table.name).state in ("FAILED", "NEEDS RESYNC"):
            supervisor.resume(self._flow(table), table)
        return result

    def _corrected(self, table: Table, *, changed: bool = True) -> None:
        """Show the rows, and let the consumers do with the corrections what they declare."""
        self._ready().published(table)
        for flow in self._flows if changed else ():
            flow.settle()

    def _follow(self, table: Table) -> None:
        """Bring a table that runs to its upstreams' present versions."""
        if table.spec.source is None and self._ready().runs(self._flow(table), table):
            self._advance(table)

    def _proof(self) -> Proof:
        assert self._topics is not None
        return Proof(
            self._sessions,
            self._registry,
            self._flows,
            self._deployment.dsn,
            self._topics,
            self._settings.kafka_bootstrap,
            self._settings.state / "scratch",
            self._run_id,
        )

    def verify(
        self,
        tables: list[str] | None,
        *,
        start: str | None = None,
        end: str | None = None,
        source: bool = True,
        repair: bool = False,
        progress: Progress,
    ) -> list[ParityResult]:
        """Parity of the named tables (all where None): derived ones against batch, stg against the source.

        Args:
            repair: recompute what differs, upstreams first, and compare again.
        """
        self._ready()
        chosen = [self._table(n) for n in tables] if tables else list(self._registry)
        with self._cancellable(progress):
            if not repair:
                return self._proof().verify(chosen, start=start, end=end, source=source, progress=progress)
            return self._proof().repair(
                [t for t in self._registry if t in chosen],
                start=start,
                end=end,
                source=source,
                follow=self._follow,
                corrected=self._corrected,
                progress=progress,
            )

    def check(
        self, table: str, *, start: str | None = None, end: str | None = None, progress: Progress
    ) -> list[ConstraintResult]:
        """Rows of the table's live state that break each of its constraints."""
        from headrace.engine.checks import check

        found = self._table(table)
        with self._cancellable(progress):
            return check(self._sessions.batch, found, start=start, end=end, progress=progress)

    def load(self, source: str, *, progress: Progress) -> LoadResult:
        """The bulk snapshot of a source that no connector reads yet, into all of its stg tables."""
        self._ready()
        return self._loads.load(source, progress)

    def suspend(self, table: str) -> None:
        """Let the table stand still; its neighbours go on."""
        found = self._table(table)
        self._catalog.set_desired(found.name, "SUSPENDED")
        self._ready().suspend(self._flow(found), found)

    def resume(self, table: str) -> None:
        """Go on from the recorded frontier, nothing lost and nothing twice."""
        found = self._table(table)
        self._catalog.set_desired(found.name, "RUNNING")
        self._ready().resume(self._flow(found), found)

    def alter(self, table: str, what: Property, value: str | None) -> AlterResult:
        """Set a property of the table, or let its file count again (None); flows and schedule follow."""
        supervisor = self._ready()
        self._loads.refuse()
        return alter(self.project, self._catalog, supervisor, self._table(table), what, value)

    def apply(self, edit: Edits | None = None, *, dry_run: bool = False, progress: Progress) -> ApplyResult:
        """Let the tables be what the files declare, or what one edit of them makes of those that run."""
        supervisor = self._ready()
        self._loads.refuse()
        made = edit(self.project) if edit is not None else None
        work = Apply(
            self._registry,
            self._catalog,
            supervisor,
            self._views,
            lambda table, said: self._refresh(table, None, None, said),
            lambda table: supervisor.resume(self._flow(table), table),
            purge=made is not None,
        )
        with self._cancellable(progress):
            return self._deployment.apply(
                work, self._sessions.batch, made, dry_run=dry_run, progress=progress
            )

    def rollback(self, table: str, *, progress: Progress) -> ApplyResult:
        """Let the table be what it was declared to be before."""
        name = self.project.table(table).name
        return self.apply(lambda p: rollback(p, name, self._catalog.former.newest(name)), progress=progress)

    def changes(self, table: str, start: Start, reader: str | None) -> ChangePage:
        """A page of the changelog, in order; a named reader's position is remembered."""
        found = self._table(table)
        self._session()
        return subscription.page(self._sessions.batch, found, self._catalog.readers, start, reader)

    def readers(self, table: str | None = None) -> list[dict[str, Any]]:
        """Registered readers, how far they have come and how far behind they are."""
        name = None if table is None else str(self._table(table).name)
        return subscription.listing(self._catalog.readers.all(name), self._registry)

    def drop_reader(self, reader: str, table: str) -> None:
        """Forget a reader: it holds nothing back any more."""
        self._catalog.readers.drop(str(self._table(table).name), reader)

    def dead_letters(self, table: str | None = None) -> list[dict[str, Any]]:
        """Messages that could not be applied, with offset and reason."""
        return [r for r in self._dead_letters.rows() if table is None or r["table"] == table]

    # -- telling ------------------------------------------------------------------------------------------

    def status(self) -> list[TableStatus]:
        if self._supervisor is None or self._topics is None:
            return [telling.initializing(name, self._waiting_for) for name in self.project.tables]
        ends = telling.topic_ends(self._topics, self._registry)
        return [self._status(table, ends) for table in self._registry]

    def explain(self, table: str, *, history: bool = False) -> Explanation:
        """Mode and strategy, and why; with `history` the decisions of past refreshes, newest first."""
        found = self._table(table)
        decided = self._catalog.decisions.of(found.name, telling.DECISIONS)
        return telling.explain(found, self._flow(found), decided, history=history)

    def describe(self, table: str) -> dict[str, Any]:
        found = self._table(table)
        altered = self._catalog.alterations.of(found.name)
        return telling.describe_table(found, self._status(found, {}), altered)

    def _status(self, table: Table, ends: Offsets) -> TableStatus:
        row, letters = self._catalog.row(table.name), self._dead_letters.count(str(table.name))
        told = [*self._ready().told(table), *self._loads.told(table), *self._deployment.edited(table.name)]
        return telling.table_status(table, self._registry, row, ends, dead_letters=letters, warnings=told)

    def show(self) -> list[dict[str, Any]]:
        return telling.listing(self.status())

    def _cancellable(self, progress: Progress) -> JobGroup:
        return JobGroup(self._session(), progress, self._sessions.statements)
