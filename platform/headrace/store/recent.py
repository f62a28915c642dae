"""The newest versions of a changelog, in memory: who follows it closely opens no log and reads no file."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Generic, TypeVar

T = TypeVar("T")


class Recent(Generic[T]):
    """What belongs to versions that follow one another without a gap. Thread-safe.

    Args:
        most: of the weights of all that is kept; the oldest go first.
        weight: of what belongs to one version.
    """

    def __init__(self, most: int, weight: Callable[[T], int] = lambda _: 1) -> None:
        self._most, self._weight = most, weight
        self._versions: deque[tuple[int, T]] = deque()
        self._total = 0
        self._lock = threading.Lock()

    def add(self, version: int, item: T) -> None:
        """Keep what belongs to a version that was just committed."""
        with self._lock:
            if self._versions and version != self._versions[-1][0] + 1:
                self._forget()
            self._versions.append((version, item))
            self._total += self._weight(item)
            while self._total > self._most:
                self._total -= self._weight(self._versions.popleft()[1])

    def clear(self) -> None:
        """Forget all of it: others may have written the changelog."""
        with self._lock:
            self._forget()

    def between(self, after: int, through: int) -> list[T] | None:
        """That of versions `(after, through]`, oldest first; None where one of them is not kept."""
        with self._lock:
            if not self._versions or after > through:
                return None
            first, last = self._versions[0][0], self._versions[-1][0]
            if after + 1 < first or through > last:
                return None
            return [item for _, item in islice(self._versions, after + 1 - first, through + 1 - first)]

    def _forget(self) -> None:
        self._versions.clear()
        self._total = 0
