"""Which tables are published: a publisher each, as the declarations say it now."""

from __future__ import annotations

import threading
import uuid
from contextlib import suppress
from pathlib import Path

from headrace.catalog.readers import Readers
from headrace.engine.publishing.publisher import READER, Publisher
from headrace.engine.spark.sessions import Sessions
from headrace.engine.table.table import Registry, Table
from headrace.errors import TerminalError, UnknownName
from headrace.results import PublishStatus
from headrace.spec.model import TableName
from headrace.storage.location import Location, replace_text
from headrace.storage.permit import PERMIT
from headrace.ticking import Ticking

IDENTITY = "warehouse.id"
"""By which a published table knows whose it is."""

LOOK_SECONDS = 1.0
"""Between two looks at the declarations."""


class Publishers:
    """
    Args:
        warehouse: where the tables are.
        state: folder of the services' state.
        environment: an environment publishes nothing, whatever is declared; "" for the production.
    """

    def __init__(
        self,
        registry: Registry,
        sessions: Sessions,
        readers: Readers,
        warehouse: Location,
        state: Path,
        environment: str = "",
    ) -> None:
        self._environment = environment
        self._registry, self._sessions, self._readers = registry, sessions, readers
        self._place, self._state = warehouse / IDENTITY, state
        self._running: dict[TableName, Publisher] = {}
        self._looking = threading.Lock()
        self._loop = Ticking("publish", self.look, LOOK_SECONDS)

    def start(self) -> None:
        """Publish what is declared so, and follow what is declared later."""
        declared = {str(table.name) for table in self._registry if table.spec.target is not None}
        for reader in self._readers.all():
            if reader.name == READER and reader.table not in declared:
                self._release(reader.table)
        self._loop.start()

    def stop(self) -> None:
        """Wait until each stands between two transactions."""
        self._loop.stop()
        self._end(list(self._running))

    def look(self) -> None:
        """Begin and end what the declarations ask for."""
        with self._looking:
            self._agree()

    def _agree(self) -> None:
        declared = [] if self._environment else list(self._registry)
        wanted = {t.name: t.spec.target for t in declared if t.spec.target is not None}
        ended = [name for name, running in self._running.items() if wanted.get(name) != running.target]
        self._end(ended)
        for name in ended:
            self._release(str(name))
        for name, target in wanted.items():
            if name not in self._running:
                publisher = Publisher(
                    name,
                    target,
                    self._registry,
                    self._sessions,
                    self._readers,
                    self._warehouse(),
                    self._state / "scratch",
                )
                self._running = {**self._running, name: publisher}
                publisher.start()

    def of(self, table: Table) -> Publisher:
        """The one of a table. Raises TerminalError where it is not published."""
        if table.spec.target is not None:
            self.look()
        if self._environment:
            raise TerminalError(
                f"`{table.name}` is not published: the environment `{self._environment}` publishes nothing. "
                "Next: publish it in the production"
            )
        if (found := self._running.get(table.name)) is None:
            raise TerminalError(
                f"`{table.name}` is not published: its file has no WITH ('publish' = 'postgresql://…'). "
                "Next: add it, then `headrace apply`"
            )
        return found

    def status(self, table: Table) -> PublishStatus | None:
        """How far its target is; None where it has none."""
        found = self._running.get(table.name)
        return found.status() if found is not None else None

    def alarms(self, table: Table) -> list[str]:
        """What is wrong with its target."""
        found = self._running.get(table.name)
        return found.alarms(table.freshness.total_seconds() if table.freshness else None) if found else []

    def _end(self, names: list[TableName]) -> None:
        ending = [self._running[name] for name in names]
        self._running = {name: p for name, p in self._running.items() if name not in names}
        for publisher in ending:
            publisher.stop()
        for publisher in ending:
            publisher.join()

    def _release(self, table: str) -> None:
        with suppress(UnknownName):
            self._readers.drop(table, READER)

    def _warehouse(self) -> str:
        """Which warehouse this is: made at the first need, and kept with the tables, whoever serves them."""
        if not self._place.is_file():
            before = self._state / IDENTITY  # where versions before this one kept it
            PERMIT.check()
            replace_text(self._place, before.read_text() if before.is_file() else uuid.uuid4().hex)
        return self._place.read_text().strip()
