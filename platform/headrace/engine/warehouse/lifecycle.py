"""The lifecycle of a warehouse: lease, Spark, and the engine as soon as its sources are there."""

from __future__ import annotations

import logging
import threading
import uuid
from typing import TYPE_CHECKING

from headrace.catalog import Catalog
from headrace.engine.flow.traces import TRACES
from headrace.engine.read.views import Views
from headrace.engine.spark.jvm import end_with_jvm, process_id
from headrace.engine.spark.meter import METER
from headrace.engine.spark.session import build_session
from headrace.engine.spark.sessions import Sessions
from headrace.engine.statements.deployment import Deployment
from headrace.engine.supervisor.start import attempts, open_tables
from headrace.engine.warehouse.engine import Engine, build
from headrace.errors import TransientError
from headrace.settings import Settings
from headrace.sources.stream.broker import Broker
from headrace.sources.stream.dead_letters import DeadLetters
from headrace.sources.stream.topics import Topics
from headrace.spec import Project
from headrace.storage import conditional_puts
from headrace.storage.location import Location
from headrace.storage.object_path import ObjectPath
from headrace.storage.permit import PERMIT
from headrace.store.fence import fence
from headrace.store.lease import Holder, lease_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)


class Lifecycle:
    """
    Attributes:
        deployment: the definitions that run.
        dead_letters: messages that could not be applied; there before the engine is.
        waiting_for: why there is no engine yet.
        stands_by_for: who holds the lease, while this one waits for it.
    """

    def __init__(self, project: Project, settings: Settings, catalog: Catalog) -> None:
        self.deployment = Deployment(project, settings, catalog)
        self.dead_letters = DeadLetters(settings.warehouse / "dead_letters", settings.dead_letters_limit)
        self.waiting_for = "the source"
        self._settings = settings
        self._catalog = catalog
        self.stands_by_for: Holder | None = None
        self._lease = lease_of(settings.warehouse, PERMIT, settings.served)
        self._fenced = False
        self._stopping = threading.Event()
        self._bring_up = threading.Thread(target=self._try_to_bring_up, name="bring-up", daemon=True)
        self._run_id = uuid.uuid4().hex[:12]
        self._spark: SparkSession | None = None
        self._sessions: Sessions | None = None
        self._views: Views | None = None
        self._topics: Topics | None = None
        self._engine: Engine | None = None

    def start(self) -> None:
        """Take the lease and start Spark; the tables follow as soon as their source is there.

        A standby starts Spark first: once the lease is its own, only the tables are missing. It returns
        without the lease where it is stopped meanwhile.

        Raises:
            TerminalError: another process holds the lease; or the store of the tables cannot be written, or
                would lose commits.
        """
        if isinstance(self._settings.warehouse, ObjectPath):
            conditional_puts.require(self._settings.warehouse)
        if not self._settings.standby:
            self._lease.acquire()
        try:
            self._start()
        except BaseException:
            self._lease.release()  # whoever stands by can do no worse
            raise

    def _start(self) -> None:
        self._settings.state.mkdir(parents=True, exist_ok=True)
        self._spark = build_session(self._settings)
        end_with_jvm(self._spark, self._stopping)
        METER.follow(process_id(self._spark))
        if self._settings.otlp_endpoint is not None:
            TRACES.start(self._settings.otlp_endpoint, str(self._settings.project))
        if self._settings.standby and not self._lease.stand_by(self._stopping, self._stand_by_for):
            return
        self.stands_by_for = None
        self._sessions = Sessions.of(self._spark)
        self._views = Views(self._spark, shown=self._settings.spark_connect)
        self.dead_letters.open()
        self._bring_up.start()

    def give_up(self) -> None:
        """Stand by no longer; `start` returns."""
        self._stopping.set()

    def _stand_by_for(self, holder: Holder) -> None:
        self.stands_by_for = holder

    def stop(self) -> None:
        """Stop the flows between two micro-batches, then Spark; free the lease."""
        self._stopping.set()
        if self._bring_up.ident is not None:
            self._bring_up.join()
        if self._engine is not None:
            self._engine.stop()
        TRACES.stop()
        if self._topics is not None:
            self._topics.close()
        if self._views is not None:
            self._views.join()
        if self._spark is not None:
            self._spark.stop()
        self._lease.release()

    @property
    def up(self) -> bool:
        """Whether the tables are there."""
        return self._engine is not None

    def engine(self) -> Engine:
        """What runs the tables.

        Raises:
            TransientError: their source is not there yet.
        """
        if self._engine is None:
            raise self.not_yet("the tables have")
        return self._engine

    def sessions(self) -> Sessions:
        """The sessions of Spark.

        Raises:
            TransientError: it has not been started.
        """
        if self._sessions is None:
            raise self.not_yet("the warehouse has")
        return self._sessions

    def not_yet(self, who: str) -> TransientError:
        """The error that says what the warehouse waits for."""
        return TransientError(f"{who} not started yet: {self.waiting_for}. Next: `headrace status`")

    def _try_to_bring_up(self) -> None:
        for why in attempts(self._build, self._stopping):
            self.waiting_for = why

    def _wait_for(self, what: str) -> None:
        self.waiting_for = what

    def _shut_out(self) -> None:
        """Before any table is read: a server before this one that stands still may wake."""
        if self._lease.was_let_go or self._fenced:
            return
        count = fence(self._places(), self._lease.epoch)
        self._fenced = True
        log.info("the server before this one did not end by itself: %d tables are taken over", count)

    def _places(self) -> list[Location]:
        """Folders of what this server writes, or will have written."""
        warehouse = self._settings.warehouse
        if not self._settings.served:
            return [warehouse]
        tables = [warehouse / name.layer / name.table for name in self.deployment.files.tables]
        return [*tables, *self.dead_letters.places]

    def _build(self) -> None:
        self._shut_out()
        sessions, views = self.sessions(), self._views
        assert views is not None, "started with the session"
        files = self.deployment.files
        project, registry = self.deployment.assemble(sessions.batch, files, self._wait_for)
        open_tables(registry, self._catalog, self._wait_for)
        self._topics = self._topics or Topics.of(Broker.of(self._settings))
        engine = build(
            project,
            registry,
            self.deployment,
            self._settings,
            self._catalog,
            sessions=sessions,
            topics=self._topics,
            dead_letters=self.dead_letters,
            views=views,
            run_id=self._run_id,
        )
        self._engine = engine
        engine.start(self._stopping)
