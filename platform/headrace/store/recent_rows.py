"""The newest rows of a changelog, in memory: who follows it closely opens no log and reads no file."""

from __future__ import annotations

import threading
from collections import deque
from itertools import islice

import pyarrow as pa

MOST_BYTES = 2 << 20
"""Of Arrow, of one table: a minute and more of a few dozen changes a second."""


class RecentRows:
    """Rows of versions that follow one another without a gap. Thread-safe."""

    def __init__(self) -> None:
        self._versions: deque[tuple[int, pa.Table]] = deque()
        self._bytes = 0
        self._lock = threading.Lock()

    def add(self, version: int, rows: pa.Table) -> None:
        """Keep the rows of a version that was just committed, and as many before it as fit."""
        with self._lock:
            if self._versions and self._versions[-1][0] != version - 1:
                self._versions.clear()
                self._bytes = 0
            self._versions.append((version, rows))
            self._bytes += rows.nbytes
            while self._bytes > MOST_BYTES:
                self._bytes -= self._versions.popleft()[1].nbytes

    def between(self, after: int, through: int) -> pa.Table | None:
        """The rows of versions `(after, through]`, oldest first; None where one of them is not kept."""
        with self._lock:
            if after >= through or not self._versions:
                return None
            first, last = self._versions[0][0], self._versions[-1][0]
            if after + 1 < first or through > last:
                return None
            kept = islice(self._versions, after + 1 - first, through + 1 - first)
            return pa.concat_tables([rows for _, rows in kept])
