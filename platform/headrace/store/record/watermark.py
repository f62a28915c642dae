"""How far a table is in its sources' time, for each of its latest versions."""

from __future__ import annotations

import threading
from bisect import bisect_right

KEPT = 4_096
"""Versions remembered: those that a table may stand at that reads this one at its own pace."""


class Watermark:
    """Marks that rise, but where a table goes back. In milliseconds since 1970; 0 while nothing is known.

    Thread-safe.
    """

    def __init__(self) -> None:
        self._versions: list[int] = []
        self._times: list[int] = []
        self._lock = threading.Lock()

    def __len__(self) -> int:
        with self._lock:
            return len(self._versions)

    @property
    def newest(self) -> int:
        """That of the newest version."""
        with self._lock:
            return self._times[-1] if self._times else 0

    def at(self, version: int) -> int:
        """What is in the table at a changelog version for certain; 0 where that is forgotten."""
        with self._lock:
            found = bisect_right(self._versions, version)
            return self._times[found - 1] if found else 0

    def move(self, version: int, time: int) -> None:
        """Everything committed at the source up to `time` is in the table at `version`."""
        with self._lock:
            if self._times and (time <= self._times[-1] or version < self._versions[-1]):
                return
            if self._versions and version == self._versions[-1]:
                self._times[-1] = time
            elif time > 0:
                self._versions.append(version)
                self._times.append(time)
            self._forget_old()

    def go_back(self, version: int, time: int) -> None:
        """The table at `version` is an older one again, in which everything up to `time` was."""
        with self._lock:
            self._versions.append(version)
            self._times.append(time)
            self._forget_old()

    def _forget_old(self) -> None:
        if len(self._versions) > KEPT:
            del self._versions[: KEPT // 2], self._times[: KEPT // 2]
