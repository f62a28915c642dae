"""Rows of snapshots that stay in memory: of all tables together no more than a budget.

What was used a moment ago is not put out for something else: tables that every micro-batch reads would only
take turns, each reading all its files again. Whoever finds no room looks into its files.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

IDLE_SECONDS = 60.0
"""Rows that nobody asked for so long make room for others."""

BUDGET = 512 << 20
"""Bytes, where nobody has set another number."""


@dataclass
class _Held:
    rows: pa.Table
    used: float


class Resident:
    """Rows by their owner, an object that is forgotten with its rows. Thread-safe.

    Args:
        budget: bytes of all rows.
        clock: seconds that only grow.
    """

    def __init__(self, budget: int = BUDGET, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.budget = budget
        self._clock = clock
        self._lock = threading.RLock()
        self._held: dict[int, _Held] = {}

    @property
    def bytes(self) -> int:
        """Held now."""
        with self._lock:
            return sum(held.rows.nbytes for held in list(self._held.values()))

    def get(self, owner: object) -> pa.Table | None:
        """The owner's rows, None where they are not held."""
        with self._lock:
            held = self._held.get(id(owner))
            if held is None:
                return None
            held.used = self._clock()
            return held.rows

    def take(self, owner: object) -> pa.Table | None:
        """As `get`, and hold them no longer."""
        with self._lock:
            held = self._held.pop(id(owner), None)
            return held.rows if held is not None else None

    def admits(self, size: int) -> bool:
        """Whether so many bytes, at most half of all, find room, or would once idle rows are gone."""
        if size > self.budget / 2:
            return False
        now = self._clock()
        with self._lock:
            held = list(self._held.values())  # an owner may be forgotten at any moment
            busy = sum(h.rows.nbytes for h in held if now - h.used <= IDLE_SECONDS)
        return busy + size <= self.budget

    def put(self, owner: object, rows: pa.Table) -> bool:
        """Hold the owner's rows, unless there is no room; the longest idle ones go first."""
        with self._lock:
            self.take(owner)
            if not self.admits(rows.nbytes):
                return False
            for other, _ in sorted(self._held.copy().items(), key=lambda item: item[1].used):
                if self.bytes + rows.nbytes <= self.budget:
                    break
                self._held.pop(other, None)
            self._held[id(owner)] = _Held(rows, self._clock())
            weakref.finalize(owner, self._held.pop, id(owner), None)
            return True


RESIDENT = Resident()
"""Of this process."""
