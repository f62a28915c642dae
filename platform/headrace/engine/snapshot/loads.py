"""The bulk snapshots of one server: at most one a source at a time."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from headrace.engine.flow.flow import Flow
from headrace.engine.read.views import Views
from headrace.engine.snapshot.load import BulkLoad, NotFirst, settle_beside
from headrace.engine.spark.job_group import JobGroup
from headrace.engine.spark.sessions import Sessions
from headrace.engine.table.table import Table, is_stg
from headrace.errors import TerminalError, UnknownName, did_you_mean
from headrace.progress import Progress
from headrace.results import LoadResult
from headrace.settings import Settings
from headrace.sources.dsn import source_dsn
from headrace.sources.postgres.bulk.columns import Inexact
from headrace.sources.postgres.bulk.record import load_record
from headrace.sources.records import records
from headrace.sources.stream.topics import Topics
from headrace.spec.connector import Connector


@dataclass
class Loads:
    """Runs them and tells how far they are.

    Args:
        connectors: by the names of their sources.
        flows: all of the warehouse's; every stg table is in one.
    """

    connectors: Callable[[], Mapping[str, Connector]]
    settings: Settings
    sessions: Sessions
    flows: Sequence[Flow]
    topics: Topics
    views: Views
    _under_way: dict[str, BulkLoad] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def load(self, source: str, progress: Progress) -> LoadResult:
        """Load the source's stg tables, or say why its connector must read it.

        Raises:
            UnknownName: there is no such source.
            TerminalError: it is being loaded, or `bulk` is wanted and cannot be.
        """
        connectors = self.connectors()
        if source not in connectors:
            raise UnknownName(f"no source `{source}`; {did_you_mean(source, connectors)}")
        known = [t for f in self.flows for t in f.tables]
        tables = [t for t in known if is_stg(t) and t.source.table.source == source and t.lacks is None]
        connector = connectors[source]
        load = BulkLoad(
            self.sessions,
            connector,
            source_dsn(connector, self.settings.source_environment()),
            tables,
            [f for f in self.flows if {t.name for t in f.tables} & {t.name for t in tables}],
            self.topics,
            records(self.settings),
            self.settings.state,
            self.settings.bulk_snapshot_connections,
            uuid.uuid4().hex[:12],
        )
        with self._lock:
            if source in self._under_way:
                raise TerminalError(f"`{source}` is being loaded. Next: `headrace status` tells how far")
            self._under_way[source] = load
        try:
            with JobGroup(self.sessions.batch, progress, self.sessions.statements):
                done = load.run(progress)
        except (Inexact, NotFirst) as error:
            if load_record(records(self.settings), source) is not None:  # some tables are loaded already
                raise TerminalError(f"{error}. Next: correct that, then `headrace up`") from error
            if self.settings.snapshot == "bulk":
                raise TerminalError(
                    f'{error}. Next: set `snapshot = "connector"` in headrace.toml, then `headrace up`'
                ) from error
            return LoadResult(source=source, loaded=False, reason=str(error))
        finally:
            with self._lock:
                self._under_way.pop(source, None)
        settle_beside(self.sessions, load.flows)
        for table in tables:
            self.views.renew(table)
        return LoadResult(source=source, loaded=True, lsn=done.lsn, rows=done.rows, seconds=done.seconds)

    def refuse(self) -> None:
        """Raises TerminalError while a source is being loaded: its flows must stay as they are."""
        with self._lock:
            for source in self._under_way:
                raise TerminalError(
                    f"`{source}` is being loaded. Next: the same statement again, once `headrace status` "
                    "shows no load"
                )

    def warnings(self, table: Table) -> list[str]:
        """What `headrace status` says of the table's load while it runs."""
        with self._lock:
            load = self._under_way.get(table.source.table.source) if is_stg(table) else None
        return [load.warnings()] if load is not None else []
