"""Tables and flows that cannot go on: what the catalog says of them, and when they are tried again."""

from __future__ import annotations

import threading
import time
from collections.abc import Set
from dataclasses import dataclass, field

from headrace.catalog import Catalog
from headrace.engine.table.table import Table
from headrace.errors import HeadraceError, NeedsResync, SnapshotAnew, SourceChanged, TerminalError
from headrace.scheduling.turns import FIRST_RETRY, LONGEST_RETRY
from headrace.spec.model import TableName


@dataclass
class _Retry:
    at: float
    wait: float = FIRST_RETRY


@dataclass(frozen=True)
class Failures:
    """Retries are keyed by the name of a table or of a flow."""

    catalog: Catalog
    changed: set[TableName] = field(default_factory=set)
    """Tables whose source has other columns than they read."""

    anew: dict[TableName, int] = field(default_factory=dict)
    """Tables whose source must be read again, for which nobody need be asked, and where its connector did."""

    _retries: dict[str, _Retry] = field(default_factory=dict)
    _observing: threading.Lock = field(default_factory=threading.Lock)

    def failed(self, table: Table, error: Exception) -> None:
        """A table cannot go on: a person must act, or it is tried again with back-off."""
        self.observe(table, error)
        if isinstance(error, SourceChanged):
            self.changed.add(table.name)
        if isinstance(error, SnapshotAnew):
            self.anew[table.name] = error.position
        if isinstance(error, TerminalError):
            self.forget(str(table.name))  # of an error before: it cannot help any more
        else:
            self.retry(str(table.name))

    def observe(self, table: Table, error: Exception) -> None:
        """Let the catalog say why the table cannot go on."""
        lost = isinstance(error, NeedsResync)
        with self._observing:
            self.catalog.observe(table.name, "NEEDS RESYNC" if lost else "FAILED", text(error))

    def runs(self, table: Table, active: Set[TableName]) -> bool:
        """Let the catalog say that the table runs, and try it no more, unless it has left its flow.

        The flow's own thread may let it leave at any moment, and tells so afterwards. What is said here is
        never said after that: the table would stand still, and nobody would look after it.

        Args:
            active: the tables that the flow advances, as they are at any moment.
        """
        with self._observing:
            if table.name not in active:
                return False
            self.forget(str(table.name))
            self.catalog.observe(table.name, "RUNNING")
            return True

    def retry(self, key: str) -> None:
        """Try again after a pause, twice as long as the one before."""
        wait = min(self._retries[key].wait * 2, LONGEST_RETRY) if key in self._retries else FIRST_RETRY
        self._retries[key] = _Retry(time.monotonic() + wait, wait)

    def forget(self, key: str) -> None:
        """Try no more; the next pause is the first one again."""
        self._retries.pop(key, None)

    def waiting(self, key: str) -> bool:
        """Whether it is to be tried again."""
        return key in self._retries

    def due(self, key: str) -> bool:
        """Whether its pause is over."""
        retry = self._retries.get(key)
        return retry is not None and time.monotonic() >= retry.at


def text(error: Exception) -> str:
    """The whole of an error of ours; of another its type and first line, of Java's those of its cause."""
    if isinstance(error, HeadraceError):
        return str(error)
    if (thrown := getattr(error, "java_exception", None)) is not None:
        while (cause := thrown.getCause()) is not None:
            thrown = cause
        return str(thrown.toString()).strip().splitlines()[0]
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return f"{type(error).__name__}: {lines[0]}"
