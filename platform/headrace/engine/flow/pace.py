"""How fast a flow goes: its micro-batches, and the tables that do not keep step with them."""

from __future__ import annotations

import time
from collections.abc import Sequence

from headrace.engine.table.table import Registry, Table
from headrace.spec.model import TableName

BATCHES_PER_FRESHNESS = (25, 60)
"""Micro-batches that a flow begins within its tightest declared freshness, where they are fast enough: at
least, and as many as a pause of `SHORTEST` seconds allows. A change that comes sooner than declared costs
little where what comes is little."""

SHORTEST = 0.5

UNDECLARED = 60.0
"""Seconds of freshness for a flow in which no table declares any."""

LOOSE = 2.0
"""Times the flow's tightest freshness beyond which a table goes its own pace."""

TRAILING_SECONDS = 1.5
"""Average refresh after which a table that nothing reads leaves the critical path of its flow."""

GIVEN = 0.25
"""Part of the last micro-batch's time that a flow waits for statements. They share the processors with a
micro-batch as well, and a longer wait makes a backfill no faster, only what streams beside it later."""

GIVEN_WAY = 0.125
"""Largest part of the tightest freshness that a flow waits for statements between two micro-batches."""

SMOOTHING = 0.3
"""Weight of the newest refresh of a small change in that average."""


class Pace:
    """Of one flow.

    Args:
        tables: the flow's.
    """

    def __init__(self, tables: Sequence[Table], registry: Registry) -> None:
        consumed = {u for t in tables for u in registry.upstreams(t)}
        declared = [t.spec.freshness.total_seconds() for t in tables if t.spec.freshness]
        self._tightest = min(declared, default=UNDECLARED)
        self._leaves = {t.name for t in tables} - consumed
        self._seconds: dict[TableName, float] = {}
        self._ended = self._spent = 0.0

    def interval(self) -> float:
        """Seconds between two micro-batches: a small part of the tightest freshness in the flow."""
        least, most = BATCHES_PER_FRESHNESS
        return min(self._tightest / least, max(SHORTEST, self._tightest / most))

    def ended(self, begun: float) -> None:
        """Note a micro-batch that ends now; `begun` by the monotonic clock."""
        self._ended = time.monotonic()
        self._spent = self._ended - begun

    def pause(self) -> float:
        """Seconds that statements have for themselves after the last micro-batch, from its end."""
        until = self._ended + min(GIVEN * self._spent, GIVEN_WAY * self._tightest)
        return max(0.0, until - time.monotonic())

    def took(self, table: Table, seconds: float) -> None:
        """Note how long a refresh of a small change took."""
        was = self._seconds.get(table.name, seconds)
        self._seconds[table.name] = was + SMOOTHING * (seconds - was)

    def trails(self, table: Table) -> bool:
        """A table with a much looser freshness, or a slow one that nothing here reads: others do not wait."""
        if self.freshness(table) > LOOSE * self._tightest:
            return True
        return table.name in self._leaves and self._seconds.get(table.name, 0.0) > TRAILING_SECONDS

    def freshness(self, table: Table) -> float:
        """Declared seconds, or those of the tightest consumer."""
        return table.freshness.total_seconds() if table.freshness is not None else self._tightest
