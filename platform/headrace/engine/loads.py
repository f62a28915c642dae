"""The bulk snapshots of one server: at most one a source at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from headrace.engine.advance import Sessions
from headrace.engine.bulk import BulkLoad, settle_beside
from headrace.engine.flow import Flow
from headrace.engine.table import Registry, Table
from headrace.errors import TerminalError, UnknownName, did_you_mean
from headrace.progress import Progress
from headrace.results import LoadResult
from headrace.settings import Settings
from headrace.sources.bulk.columns import Inexact
from headrace.sources.topics import Topics
from headrace.spec import Project


@dataclass
class Loads:
    """Runs them and tells how far they are.

    Args:
        dsn: connection string of a source by its name.
        published: called after a table's snapshot moved.
    """

    project: Project
    settings: Settings
    sessions: Sessions
    registry: Registry
    flows: Sequence[Flow]
    topics: Topics
    dsn: Callable[[str], str]
    run_id: str
    published: Callable[[Table], None]
    _under_way: dict[str, BulkLoad] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def load(self, source: str, progress: Progress) -> LoadResult:
        """Load the source's stg tables, or say why its connector must read it.

        Raises:
            UnknownName: there is no such source.
            TerminalError: it is being loaded, or its tables are not empty.
        """
        if source not in self.project.connectors:
            raise UnknownName(f"no source `{source}`; {did_you_mean(source, self.project.connectors)}")
        tables = [t for t in self.registry if t.spec.source is not None and t.spec.source.source == source]
        load = BulkLoad(
            self.sessions,
            self.project.connectors[source],
            self.dsn(source),
            tables,
            [f for f in self.flows if {t.name for t in f.tables} & {t.name for t in tables}],
            self.topics,
            self.settings.state,
            self.settings.bulk_snapshot_connections,
            self.run_id,
        )
        with self._lock:
            if source in self._under_way:
                raise TerminalError(f"`{source}` is being loaded. Next: `headrace status` tells how far")
            self._under_way[source] = load
        try:
            done = load.run(progress)
        except Inexact as error:
            if self.settings.snapshot == "bulk":
                raise TerminalError(
                    f'{error}. Next: set `snapshot = "connector"` in headrace.toml, then `headrace up`'
                ) from error
            return LoadResult(source=source, loaded=False, reason=str(error))
        finally:
            with self._lock:
                self._under_way.pop(source, None)
        for table in tables:
            self.published(table)
        settle_beside(self.sessions, load.flows)
        return LoadResult(source=source, loaded=True, lsn=done.lsn, rows=done.rows, seconds=done.seconds)

    def told(self, table: Table) -> list[str]:
        """What `headrace status` says of the table's load while it runs."""
        with self._lock:
            load = self._under_way.get(table.spec.source.source) if table.spec.source else None
        return [load.told()] if load is not None else []
