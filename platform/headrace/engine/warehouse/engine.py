"""What runs once the sources are there: built once, of parts that change by their own commands only."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property, partial

from headrace.catalog import Catalog
from headrace.engine.flow.arrangement import Arrangement
from headrace.engine.flow.flow import Flow, flow_of
from headrace.engine.flow.publication import Publication
from headrace.engine.flow.rejoin import CatchUp
from headrace.engine.ingest.first_snapshot import give_up
from headrace.engine.ingest.origins import Origins
from headrace.engine.ingest.source_columns import SourceColumns
from headrace.engine.ingest.source_watch import SourceWatch
from headrace.engine.partitions.completion import PartitionCompletion
from headrace.engine.partitions.run_modes import offline_writer, partition_completion
from headrace.engine.proof.quarantine import Counting, Quarantine
from headrace.engine.proof.verify import Proof
from headrace.engine.publishing.publishers import Publishers
from headrace.engine.read.views import Views
from headrace.engine.snapshot.loads import Loads
from headrace.engine.spark.meter import METER
from headrace.engine.spark.session import use_pool
from headrace.engine.spark.sessions import Sessions
from headrace.engine.statements.apply import Apply
from headrace.engine.statements.blue_green import Green
from headrace.engine.statements.captured_follower import CapturedFollower
from headrace.engine.statements.columns_follower import ColumnsFollower
from headrace.engine.statements.deployment import Deployment
from headrace.engine.statements.erase import Erase
from headrace.engine.statements.read_anew import ReadAnew
from headrace.engine.statements.recompute import Recompute
from headrace.engine.supervisor.admission import Admission
from headrace.engine.supervisor.failures import Failures
from headrace.engine.supervisor.schedule import outdated
from headrace.engine.supervisor.start import flow_maker
from headrace.engine.supervisor.supervisor import Supervisor
from headrace.engine.table.table import Registry, StgTable, Table, is_stg
from headrace.errors import SnapshotAnew
from headrace.progress import Progress
from headrace.results import RefreshResult, evaluations
from headrace.settings import Settings
from headrace.sources.health import Limits
from headrace.sources.records import records
from headrace.sources.stream.broker import Broker
from headrace.sources.stream.dead_letters import DeadLetters
from headrace.sources.stream.formats import Formats
from headrace.sources.stream.keys import topic_keys
from headrace.sources.stream.topics import Topics
from headrace.spec import Project
from headrace.spec.edit import create_all
from headrace.spec.model import SourceTable, TableName
from headrace.spec.partitions.label_range import LabelRange
from headrace.ticking import Ticking

WATCH_SECONDS = 0.5
"""Between two looks at stg tables that may go on by themselves."""

COSTS_SECONDS = 60.0
"""Between two notes of what work has cost."""

CAPTURED_SECONDS = 5.0
"""Between two looks at which tables a source captures."""


ASKED = 1.0
"""Seconds between two looks at what a backfill waits for."""


@dataclass(frozen=True)
class Engine:
    registry: Registry
    settings: Settings
    catalog: Catalog
    sessions: Sessions
    topics: Topics
    views: Views
    supervisor: Supervisor
    loads: Loads
    proof: Proof
    publication: Publication
    recomputing: Recompute
    completion: PartitionCompletion
    columns: SourceColumns
    failures: Failures
    deployment: Deployment
    publishers: Publishers
    run_id: str

    @property
    def flows(self) -> Sequence[Flow]:
        """The flows that there are now: always the same list."""
        return self.supervisor.flows

    def start(self, stopping: threading.Event) -> None:
        """Let the tables run.

        Args:
            stopping: set when the warehouse stops.
        """
        self.supervisor.start()
        self.completion.start()
        for watcher in self._watchers:
            watcher.start()
        self.publishers.start()
        self.views.begin(self.registry, stopping)

    def stop(self) -> None:
        """Stop what runs by itself, between two micro-batches."""
        self.counting.stop()
        self.publishers.stop()
        for watcher in self._watchers:
            watcher.stop()
        self.completion.stop()
        self.supervisor.stop()
        self.columns.close()
        self.note_costs()

    def flow(self, name: TableName) -> Flow | None:
        """The flow that advances the table; None where none does."""
        return flow_of(self.flows, name)

    def one_cut(self, names: Collection[TableName]) -> dict[TableName, int]:
        """The versions at which a query reads tables together. Those that no flow advances now are not among
        them, and the tables of different flows, which nothing connects, have a cut for each.

        Raises:
            TransientError: tables of a flow do not come to stand at one cut.
        """
        found: dict[TableName, int] = {}
        for flow in list(self.flows):
            if own := [name for name in names if name in flow.active]:
                found |= flow.common_cut(own)
        return found

    @cached_property
    def quarantine(self) -> Quarantine:
        return Quarantine(self.sessions, self.registry, self.proof)

    @cached_property
    def counting(self) -> Counting:
        """Of what is in quarantine, while somebody looks at the status."""
        return Counting(self.quarantine)

    @cached_property
    def _watchers(self) -> tuple[Ticking, ...]:
        """What lets stg tables go on by themselves."""
        columns = ColumnsFollower(self.registry, self.failures, self._follow_columns, self._resume_if_out)
        anew = ReadAnew(self.registry, self.failures, self._give_up, self._read_again)
        deployment = self.deployment
        captured = CapturedFollower(
            self.registry,
            deployment.files.directory,
            lambda: deployment.connectors,
            deployment.dsn,
            self._create,
        )
        ready = partial(use_pool, self.sessions.batch, "batch")
        return (
            Ticking("captured", captured.look, CAPTURED_SECONDS, ready=ready),
            Ticking("columns", columns.look, WATCH_SECONDS, ready=ready),
            Ticking("read-anew", anew.look, WATCH_SECONDS, ready=ready),
            Ticking("costs", self.note_costs, COSTS_SECONDS),
        )

    def note_costs(self) -> None:
        """Let the catalog know what work has cost since it was told last."""
        self.catalog.costs.add(cost.told(to) for to, cost in METER.take().items())

    def _give_up(self, table: StgTable, why: SnapshotAnew) -> None:
        give_up(table, self.run_id)
        flow = self.flow(table.name)
        if flow is not None and table.name in flow.active:  # else it is told when it is to go on
            with self.supervisor.arranging:
                flow.leave(table.name)
            self.failures.failed(table, why)

    def _read_again(self, table: Table) -> None:
        self.loads.refuse()
        self.refresh(table, None, Progress())

    def follow_columns(self, table: Table) -> None:
        """Let a stg table's rows be of the columns that its source has now; others are as they were.

        Raises:
            TerminalError: a person is to decide.
        """
        if is_stg(table) and self.columns.look([table]):
            self._follow_columns(table.source.table)

    def _resume_if_out(self, table: Table) -> None:
        table, flow = self.registry.tables.get(table.name, table), self.flow(table.name)
        out = flow is not None and table.name not in flow.active
        if out and self.supervisor.admission.wanted(table.name) and outdated(table) is None:
            self.resume(table)

    def _follow_columns(self, captured: SourceTable) -> None:
        self.loads.refuse()
        self.deployment.follow(self.applying(), self.sessions.batch, {captured}, Progress())

    def _create(self, texts: Mapping[TableName, str]) -> None:
        self.loads.refuse()
        edit = create_all(self.deployment.files, texts)
        self.deployment.apply(self.applying(), self.sessions.batch, edit, dry_run=False, progress=Progress())

    def applying(self, green: Green | None = None, *, purge: bool = False) -> Apply:
        """What lets the tables become others.

        Args:
            green: has some of them built aside.
            purge: whether the files of tables that go are deleted.
        """
        return Apply(
            self.sessions.batch,
            self.registry,
            self.catalog,
            self.supervisor,
            self.views,
            lambda table, said: self.recomputing.recompute(table, None, said, green),
            self.resume,
            purge=purge,
        )

    def erasing(self, letters: DeadLetters) -> Erase:
        """What erases a key."""
        broker = Broker.of(self.settings)
        return Erase(
            self.sessions,
            self.registry,
            self.catalog.readers,
            letters,
            Formats.of(broker.registry),
            lambda topic: topic_keys(broker, self.topics.bounds([topic])),
            self.topics.delete_before,
            self.proof.captured,
            lambda table: self.supervisor.runs(self.flow(table.name), table),
            self.follow,
            self.still,
            self.views.renew,
            self.run_id,
        )

    @contextmanager
    def still(self) -> Iterator[None]:
        """While the block lasts every flow stands between two micro-batches."""
        with self.supervisor.arranging, ExitStack() as held:
            for flow in list(self.flows):
                held.enter_context(flow.paused())
            yield

    def resume(self, table: Table) -> None:
        """Let the table go on. Raises what keeps it out."""
        self.supervisor.resume(self.flow(table.name), table)

    def refresh(self, table: Table, labels: LabelRange | None, progress: Progress) -> RefreshResult:
        """Recompute a range of the table; all of it is what a table lacked that could not go on."""
        self.wait_for_room(table, progress)
        result = self.recomputing.recompute(table, labels, progress)
        if labels is None and self.catalog.row(table.name).state in ("FAILED", "NEEDS RESYNC"):
            self.resume(table)
        return result

    def wait_for_room(self, table: Table, progress: Progress) -> None:
        """Let a derived table wait while a source's disk fills: until its connector has caught up, that has
        the machine. A statement does so before it counts as work, for which flows give way."""
        while not is_stg(table) and (why := self.supervisor.sources.filling()) is not None:
            progress.report(f"{table.name} waits: {why}")
            time.sleep(ASKED)

    def follow(self, table: Table) -> None:
        """Bring a table that runs to its upstreams' present versions."""
        if not is_stg(table) and self.supervisor.runs(self.flow(table.name), table):
            self.recomputing.advance(table)


def build(
    project: Project,
    registry: Registry,
    deployment: Deployment,
    settings: Settings,
    catalog: Catalog,
    *,
    sessions: Sessions,
    topics: Topics,
    dead_letters: DeadLetters,
    views: Views,
    run_id: str,
) -> Engine:
    """The engine of these tables, which are open; nothing runs yet.

    Args:
        project: what is declared, as statements have altered it.
    """
    failures, admission = Failures(catalog), Admission(registry, catalog)
    origins = Origins(
        topics,
        deployment.dsn,
        deployment.connector,
        settings.connect_rest,
        records(settings),
        settings.environment,
    )
    columns = SourceColumns(deployment.dsn, deployment.message_key)
    make = flow_maker(
        deployment.connector,
        registry,
        settings,
        sessions=sessions,
        topics=topics,
        origins=origins,
        columns=columns,
        dead_letters=dead_letters,
        on_failure=failures.failed,
    )
    threshold = timedelta(seconds=settings.continuous_threshold_seconds)
    arrangement = Arrangement(project, registry, threshold, make)
    flows = arrangement.flows
    publication = Publication(views, flows)
    broker = Broker.of(settings)
    proof = Proof(
        sessions,
        registry,
        flows,
        deployment.dsn,
        deployment.replica,
        deployment.connector,
        topics,
        origins,
        broker,
        settings.state / "scratch",
        run_id,
        dead_letters.dropped,
        lambda results, labels: catalog.evaluations.note(evaluations(results, labels)),
    )
    offline = offline_writer(catalog, sessions, registry, flows, admission, publication, run_id)
    recomputing = Recompute(sessions, registry, flows, proof, offline, publication, run_id)
    loads = Loads(lambda: deployment.connectors, settings, sessions, flows, topics, views)
    supervisor = Supervisor(
        arrangement,
        registry,
        settings,
        catalog,
        sessions,
        views,
        CatchUp(sessions, topics, origins, columns, dead_letters, broker),
        admission,
        failures,
        recomputing.advance,
        loads.refuse,
        SourceWatch(
            deployment.dsn,
            deployment.connector,
            settings.connect_rest,
            Limits(*settings.slot_lag),
            restarts=not settings.environment,
        ),
    )
    completion = partition_completion(catalog, sessions, registry, flows, offline, proof, publication)
    return Engine(
        registry,
        settings,
        catalog,
        sessions,
        topics,
        views,
        supervisor,
        loads,
        proof,
        publication,
        recomputing,
        completion,
        columns,
        failures,
        deployment,
        Publishers(
            registry, sessions, catalog.readers, settings.warehouse, settings.state, settings.environment
        ),
        run_id,
    )
