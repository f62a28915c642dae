"""The warehouse: everything that a statement can ask of it. One instance per server, holding the lease."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from headrace.catalog import Catalog
from headrace.engine import views
from headrace.engine.advance import Sessions, advance
from headrace.engine.assemble import assemble
from headrace.engine.backfill import backfill
from headrace.engine.catch_up import CatchUp
from headrace.engine.flow import Flow
from headrace.engine.proof import Proof
from headrace.engine.session import batch_session, build_session, flow_session
from headrace.engine.supervisor import Supervisor
from headrace.engine.table import Registry, Table
from headrace.engine.telling import describe_table, explain, initializing, table_status
from headrace.errors import HeadraceError, TerminalError, TransientError
from headrace.planner.flows import group
from headrace.progress import Progress
from headrace.results import ConstraintResult, Explanation, ParityResult, RefreshResult, TableStatus
from headrace.settings import Settings
from headrace.sources.dead_letters import DeadLetters
from headrace.sources.dsn import source_dsn
from headrace.sources.postgres import SourceSchema, describe
from headrace.sources.topics import Topics
from headrace.spec import Project
from headrace.spec.model import RefreshMode, SourceTable, TableName
from headrace.spec.partitions import label_range
from headrace.store.frontier import Offsets
from headrace.store.lease import Lease

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

VIEW_SECONDS = 600.0
"""Time between two renewals of a table's view for Spark Connect: each costs Spark a second."""

RETRY_SECONDS = 2.0
"""Pause between two attempts to read the source's schema while it is not there yet."""


class Warehouse:
    """Holds the lease, runs the flows, answers statements. Methods are thread-safe after `start`."""

    def __init__(self, project: Project, settings: Settings, catalog: Catalog) -> None:
        self._project = project
        self._settings = settings
        self._catalog = catalog
        self._lease = Lease(settings.warehouse / "lease")
        self._run_id = uuid.uuid4().hex[:12]
        self._registry = Registry()
        self._flows: list[Flow] = []
        self._supervisor: Supervisor | None = None
        self._waiting_for = "the source"
        self._stopping = threading.Event()
        self._starter: threading.Thread | None = None
        self._spark: SparkSession | None = None
        self._topics: Topics | None = None
        self._published: dict[TableName, float] = {}
        self._dead_letters = DeadLetters(settings.warehouse / "dead_letters")

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
            self._spark.stop()
        self._lease.release()

    def _bring_up(self) -> None:
        said = ""
        while not self._stopping.is_set():
            try:
                sources = self._describe_sources()
                self._assemble(sources)
                return
            except TransientError as error:
                self._waiting_for = str(error)
            except HeadraceError as error:
                self._waiting_for = str(error)
            except Exception as error:
                log.exception("the tables cannot start")
                self._waiting_for = f"{type(error).__name__}: {error}"
            if self._waiting_for != said:
                log.info("waiting: %s", self._waiting_for)
                said = self._waiting_for
            self._stopping.wait(RETRY_SECONDS)

    def _dsn(self, source: str) -> str:
        return source_dsn(self._project.connectors[source], self._settings.source_environment())

    def _describe_sources(self) -> dict[SourceTable, SourceSchema]:
        found: dict[SourceTable, SourceSchema] = {}
        tables = self._project.sources()
        for source in sorted({t.source for t in tables}):
            found |= describe(self._dsn(source), [t for t in tables if t.source == source])
        return found

    def _assemble(self, sources: dict[SourceTable, SourceSchema]) -> None:
        assert self._spark is not None
        settings = self._settings
        registry = assemble(
            self._sessions.batch,
            self._project,
            sources,
            warehouse=settings.warehouse,
            threshold=timedelta(seconds=settings.continuous_threshold_seconds),
        )
        for table in registry:
            table.store.create(table.template)
            table.store.open()
            self._catalog.register(table.spec, table.mode)
            views.publish(self._spark, table)
            self._published[table.name] = time.monotonic()
        self._topics = self._topics or Topics(settings.kafka_bootstrap)
        # A stg table always follows its topic: Kafka does not keep its events for ever.
        modes = {t.name: RefreshMode.CONTINUOUS if t.source else t.mode for t in registry}
        self._flows = [
            Flow(
                plan.name,
                [registry[n] for n in plan.tables],
                sessions=self._sessions,
                registry=registry,
                topics=self._topics,
                bootstrap=settings.kafka_bootstrap,
                dead_letters=self._dead_letters,
                directory=settings.state / "checkpoints",
                max_offsets=settings.max_offsets_per_trigger,
                on_failure=self._failed,
            )
            for plan in group(self._project, modes)
        ]
        self._supervisor = Supervisor(
            self._flows,
            self._catalog,
            self._sessions,
            CatchUp(self._sessions, self._topics, self._dead_letters, settings.kafka_bootstrap),
            self._publish,
            [t for t in registry if modes[t.name] is not RefreshMode.CONTINUOUS],
            self._advance,
            settings.compaction_interval_seconds,
        )
        self._registry = registry
        self._supervisor.start()

    def _advance(self, table: Table) -> None:
        """One scheduled refresh: to the end of what is there."""
        if table.mode is RefreshMode.FULL and table.store.version:
            self._refresh(table, None, None, Progress())
        else:
            advance(self._sessions, self._registry, table, {}, run_id=self._run_id)

    def _publish(self, table: Table) -> None:
        """Renew the table's view now and then: an older one is right too, only its tail is longer."""
        assert self._spark is not None
        if time.monotonic() - self._published.get(table.name, 0.0) < VIEW_SECONDS:
            return
        self._published[table.name] = time.monotonic()
        views.publish(self._spark, table)

    def _failed(self, table: Table, error: Exception) -> None:
        if self._supervisor is not None:
            self._supervisor.failed(table, error)

    # -- names --------------------------------------------------------------------------------------------

    def _table(self, name: str) -> Table:
        spec = self._project.table(name)
        if spec.name not in self._registry.tables:
            raise TransientError(
                f"`{name}` has not started yet: {self._waiting_for}. Next: `headrace status`"
            )
        return self._registry[spec.name]

    def _flow(self, table: Table) -> Flow | None:
        """The table's flow, None where it is refreshed on a schedule."""
        return next((f for f in self._flows if table in f.tables), None)

    def _ready(self) -> Supervisor:
        if self._supervisor is None:
            raise TransientError(
                f"the tables have not started yet: {self._waiting_for}. Next: `headrace status`"
            )
        return self._supervisor

    # -- statements ---------------------------------------------------------------------------------------

    def select(self, sql: str, *, limit: int | None = None) -> pa.Table:
        """Rows of a SELECT over live tables."""
        self._session()
        frame = views.select(self._sessions.flow, self._registry, sql)
        return (frame if limit is None else frame.limit(limit)).toArrow()

    def _session(self) -> SparkSession:
        if self._spark is None:
            raise TransientError("the warehouse is starting. Next: `headrace status`")
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

    def _refresh(self, table: Table, start: str | None, end: str | None, progress: Progress) -> RefreshResult:
        supervisor = self._ready()
        if table.spec.source is not None:
            result = self._proof().refresh_from_source(table, start, end, progress=progress)
        else:
            result = backfill(
                self._sessions, self._registry, table, start, end, run_id=self._run_id, progress=progress
            )
        supervisor.published(table)
        if result.inserted or result.updated or result.deleted:
            for flow in self._flows:
                flow.settle()
        if start is None and self._catalog.row(table.name).state == "FAILED":
            supervisor.resume(self._flow(table), table)
        return result

    def _proof(self) -> Proof:
        assert self._topics is not None
        return Proof(
            self._sessions,
            self._registry,
            self._flows,
            self._dsn,
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
        progress: Progress,
    ) -> list[ParityResult]:
        """Parity of the named tables (all where None): derived ones against batch, stg against the source."""
        self._ready()
        chosen = [self._table(n) for n in tables] if tables else list(self._registry)
        with self._cancellable(progress):
            return self._proof().verify(chosen, start=start, end=end, source=source, progress=progress)

    def check(
        self, table: str, *, start: str | None = None, end: str | None = None, progress: Progress
    ) -> list[ConstraintResult]:
        """Rows of the table's live state that break each of its constraints."""
        from headrace.engine.checks import check

        found = self._table(table)
        with self._cancellable(progress):
            return check(self._sessions.batch, found, start=start, end=end, progress=progress)

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

    def changes(self, table: str, from_version: int) -> pa.Table:
        """The changelog after `from_version`, in order."""
        store = self._table(table).store
        return store.changelog.read(from_version, store.version)

    def dead_letters(self, table: str | None = None) -> list[dict[str, Any]]:
        """Messages that could not be applied, with offset and reason."""
        return [r for r in self._dead_letters.rows() if table is None or r["table"] == table]

    # -- telling ------------------------------------------------------------------------------------------

    def status(self) -> list[TableStatus]:
        if self._supervisor is None or self._topics is None:
            return [initializing(name, self._waiting_for) for name in self._project.tables]
        try:
            ends = self._topics.ends([t.spec.source.topic for t in self._registry if t.spec.source])
        except TransientError:
            ends = {}
        return [self._status(table, ends) for table in self._registry]

    def explain(self, table: str) -> Explanation:
        found = self._table(table)
        return explain(found, next((f for f in self._flows if found in f.tables), None))

    def describe(self, table: str) -> dict[str, Any]:
        found = self._table(table)
        return describe_table(found, self._status(found, {}))

    def _status(self, table: Table, ends: Offsets) -> TableStatus:
        letters = self._dead_letters.count(str(table.name))
        return table_status(table, self._registry, self._catalog.row(table.name), ends, dead_letters=letters)

    def show(self) -> list[dict[str, Any]]:
        return [
            {"table": s.table, "mode": s.mode, "state": s.state, "strategy": s.strategy, "rows": s.rows}
            for s in self.status()
        ]

    def _cancellable(self, progress: Progress) -> _JobGroup:
        return _JobGroup(self._session(), progress)


class _JobGroup:
    """Spark jobs started inside the block are cancelled with their statement."""

    def __init__(self, spark: SparkSession, progress: Progress) -> None:
        self._context = spark.sparkContext
        self._progress = progress
        self._tag = f"headrace-{uuid.uuid4().hex}"

    def __enter__(self) -> None:
        self._context.setLocalProperty("spark.scheduler.pool", "batch")
        self._context.addJobTag(self._tag)
        self._progress.on_cancel(lambda: self._context.cancelJobsWithTag(self._tag))

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._context.removeJobTag(self._tag)
        if error is not None:
            self._progress.raise_if_cancelled()
