"""The life of a warehouse: lease, Spark, tables and what runs them; and what every statement begins with."""

from __future__ import annotations

import threading
import uuid
from contextlib import nullcontext
from typing import TYPE_CHECKING

from headrace.catalog import Catalog
from headrace.engine.flow.flow import Flow
from headrace.engine.flow.rejoin import refresh_beside
from headrace.engine.partitions.completion import PartitionCompletion
from headrace.engine.partitions.run_modes import partition_completion
from headrace.engine.proof.verify import Proof
from headrace.engine.read import views
from headrace.engine.rows.batch_rows import Span
from headrace.engine.snapshot.loads import Loads
from headrace.engine.spark.job_group import JobGroup
from headrace.engine.spark.session import build_session
from headrace.engine.spark.sessions import Sessions
from headrace.engine.statements.blue_green import Green
from headrace.engine.statements.deployment import Deployment
from headrace.engine.supervisor.schedule import of_another_text
from headrace.engine.supervisor.start import attempts, open_tables, supervise
from headrace.engine.supervisor.supervisor import Supervisor
from headrace.engine.table.offline_bound import offline
from headrace.engine.table.table import Registry, Table
from headrace.errors import TransientError
from headrace.progress import Progress
from headrace.results import RefreshResult
from headrace.settings import Settings
from headrace.sources.dead_letters import DeadLetters
from headrace.sources.topics import Topics
from headrace.spec import Project
from headrace.store.lease import Lease

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Lifecycle:
    """Holds the lease and runs the flows. Methods are thread-safe after `start`."""

    def __init__(self, project: Project, settings: Settings, catalog: Catalog) -> None:
        self._deployment = Deployment(project, settings, catalog)
        self._settings = settings
        self._catalog = catalog
        self._lease = Lease(settings.warehouse / "lease")
        self._run_id = uuid.uuid4().hex[:12]
        self._registry = Registry()
        self._flows: list[Flow] = []  # the arrangement's, once there is one
        self._supervisor: Supervisor | None = None
        self._completion: PartitionCompletion | None = None
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

    def start(self) -> None:
        """Take the lease and start Spark; the tables follow as soon as their source is there.

        Raises:
            TerminalError: another process holds the lease.
        """
        self._lease.acquire()
        self._settings.state.mkdir(parents=True, exist_ok=True)
        self._spark = build_session(self._settings)
        self._sessions = Sessions.of(self._spark)
        self._views = views.Views(self._spark)
        self._dead_letters.open()
        self._starter = threading.Thread(target=self._bring_up, name="bring-up", daemon=True)
        self._starter.start()

    def stop(self) -> None:
        """Stop the flows between two micro-batches, then Spark; free the lease."""
        self._stopping.set()
        if self._starter is not None:
            self._starter.join()
        if self._completion is not None:
            self._completion.stop()
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
        open_tables(registry, self._catalog)
        self._topics = self._topics or Topics.of(settings.kafka_bootstrap)
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
        self._proof = Proof(
            self._sessions,
            registry,
            self._flows,
            self._deployment.dsn,
            self._topics,
            settings.kafka_bootstrap,
            settings.state / "scratch",
            self._run_id,
        )
        self._supervisor.held = self._loads.refuse
        self._registry = registry
        self._completion = partition_completion(self._supervisor, self._proof, self._corrected)
        self._supervisor.start()
        self._completion.start()
        self._views.begin(registry, self._stopping)

    def _advance(self, table: Table) -> None:
        if offline(table):
            self._completing().offline.follow(table, Progress())
            return
        if of_another_text(table):
            self._refresh(table, None, None, Progress())
        refresh_beside(self._sessions, self._registry, self._flows, table, run_id=self._run_id)

    def _refresh(
        self,
        table: Table,
        start: str | None,
        end: str | None,
        progress: Progress,
        green: Green | None = None,
    ) -> RefreshResult:
        supervisor = self._ready()
        batched = offline(table) or table.store.commit.complete_through
        with self._completing().offline.alone(table.name) if batched else nullcontext():
            if green is not None and table in green:
                result = green.swap(table, progress)
            else:
                result = self._proof.refresh(table, Span(start, end), progress=progress)
        self._corrected(table, changed=bool(result.inserted or result.updated or result.deleted))
        if start is None and self._catalog.row(table.name).state in ("FAILED", "NEEDS RESYNC"):
            supervisor.resume(self._flow(table), table)
        return result

    def _corrected(self, table: Table, *, changed: bool = True) -> None:
        """Show the rows, and let the consumers do with the corrections what they declare."""
        self._ready().published(table)
        for flow in self._flows if changed else ():
            flow.settle()

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

    def _completing(self) -> PartitionCompletion:
        if self._completion is None:
            raise self._not_yet("the tables have")
        return self._completion

    def _session(self) -> SparkSession:
        if self._spark is None:
            raise self._not_yet("the warehouse has")
        return self._spark

    def _cancellable(self, progress: Progress) -> JobGroup:
        return JobGroup(self._session(), progress, self._sessions.statements)
