"""Whether captured tables still have the columns that stg tables read of them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from headrace.engine.table.table import StgTable
from headrace.errors import TransientError, UnknownName
from headrace.sources.database import ColumnWatch, database
from headrace.sources.schema import MessageKey, SourceSchema
from headrace.sources.schema_change import change, followed
from headrace.spec.model import SchemaChangeBehavior as Behavior
from headrace.spec.model import TableName
from headrace.spec.sql.columns import columns_read

log = logging.getLogger(__name__)

SILENT_SECONDS = 10.0
"""How long a source that did not answer is not asked again: it has nothing new either."""


class SourceColumns:
    """Asked before messages are applied. Thread-safe.

    Args:
        dsn: connection string of a source by its name.
        declared: the key of its messages that the connector's file names.
    """

    def __init__(self, dsn: Callable[[str], str], declared: MessageKey = lambda table: ()) -> None:
        self._dsn = dsn
        self._declared = declared
        self._lock = threading.Lock()
        self._connections: dict[str, ColumnWatch[Any]] = {}
        self._silent: dict[str, float] = {}  # until when, by the monotonic clock
        self._seen: dict[TableName, tuple[str, str]] = {}  # a fingerprint, and the digest that it is of

    def close(self) -> None:
        with self._lock:
            while self._connections:
                self._connections.popitem()[1].close()

    def look(self, tables: Sequence[StgTable]) -> dict[TableName, str]:
        """Tables whose source has other columns than they read, each with what is different.

        A source that does not answer is not waited for: messages of other columns came after an answer, or
        will be found when it is there again.
        """
        found: dict[TableName, str] = {}
        with self._lock:
            for source in sorted({t.source.table.source for t in tables}):
                if time.monotonic() < self._silent.get(source, 0.0):
                    continue
                own = [t for t in tables if t.source.table.source == source]
                try:
                    found |= self._look(self._connected(source), own)
                except TransientError as error:
                    log.warning("the columns of source %s are not known now: %s", source, error)
                    self._silent[source] = time.monotonic() + SILENT_SECONDS
                    if (connection := self._connections.pop(source, None)) is not None:
                        connection.close()
        return found

    def _connected(self, source: str) -> ColumnWatch[Any]:
        if source not in self._connections:
            self._connections[source] = database(self._dsn(source)).columns()
        return self._connections[source]

    def _look(self, connection: ColumnWatch[Any], tables: Sequence[StgTable]) -> dict[TableName, str]:
        found: dict[TableName, str] = {}
        now = connection.fingerprints({t.source.table for t in tables})
        for table in tables:
            seen = (now[table.source.table], table.source.digest)
            if self._seen.get(table.name) == seen:
                continue
            try:
                captured = table.source.table
                different = _different(table, connection.described(captured, self._declared(captured)))
            except UnknownName as error:
                different = str(error)
            if different is None:
                self._seen[table.name] = seen
            else:
                found[table.name] = different
        return found


def _different(table: StgTable, now: SourceSchema) -> str | None:
    """What of the columns that it reads is different now. Its replica identity is followed at once."""
    if now.refused:
        return f"it {now.refused}"
    behavior = table.behavior if table.behavior is Behavior.IGNORE else Behavior.LENIENT
    there = followed(table.source, now, behavior).reading(columns_read(table.spec))
    different = change(table.source, there)
    if different is not None:
        return str(different)
    table.source = there
    return None
