"""What every peer does alike that runs processes, which keep its tables in files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from benchmarks.live.contender import Commit
from benchmarks.peers.processes import Processes


class Table(Protocol):
    """A table, read from its files."""

    def commits(self) -> Sequence[Commit]:
        """Its commits with changes, in order."""

    def rows(self) -> pa.Table:
        """Its content."""


class Started:
    """The part of a contender that follows `start`, which sets `_processes` and `_tables`."""

    _processes: Processes | None = None
    _tables: Mapping[str, Table] = {}

    def commits(self, table: str) -> Sequence[Commit]:
        """The table's commits that changed rows."""
        return self._tables[table].commits()

    def rows(self, table: str) -> pa.Table:
        """The table's content."""
        return self._tables[table].rows()

    def roots(self) -> Sequence[int]:
        """The processes that `start` started."""
        return self._processes.pids() if self._processes else []

    def check(self) -> None:
        """See `Contender.check`."""
        if self._processes:
            self._processes.check()

    def stop(self) -> None:
        """End them."""
        if self._processes:
            self._processes.stop()
