"""How long a committed change takes until a live read of `dws.user_hour` shows it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import pairwise

from pydantic import BaseModel

from headrace.demo.background import Background
from headrace.errors import TransientError
from headrace.percentile import percentile
from headrace.results import TableStatus


class Freshness(BaseModel):
    """Seconds from PostgreSQL commit to the end of the first live read that shows it."""

    p50: float
    p90: float
    p99: float
    min: float
    max: float
    samples: int


def delays(ticks: Sequence[tuple[int, float]], reads: Sequence[tuple[int, float]]) -> dict[int, float]:
    """For every tick that became visible: seconds from its commit to the first read with `visible >= tick`.

    Args:
        ticks: (tick, commit time), in commit order.
        reads: (newest visible tick, time the read returned), in order of reading.
    """
    found: dict[int, float] = {}
    read = iter(reads)
    visible, at = next(read, (0, 0.0))
    for tick, committed in ticks:
        # A read that ended before this commit shows at most an earlier run's value.
        while visible < tick or at < committed:
            following = next(read, None)
            if following is None:
                return found
            visible, at = following
        found[tick] = at - committed
    return found


def by_minute(
    ticks: Sequence[tuple[int, float]], reads: Sequence[tuple[int, float]], minutes: int
) -> list[Freshness]:
    """Of each of the first minutes since the first tick, as long as there are any ticks in it.

    Args:
        ticks, reads: as for `delays`.
    """
    seen = delays(ticks, reads)
    begun = ticks[0][1] if ticks else 0.0
    found = []
    for minute in range(minutes):
        own = [t for t, at in ticks if minute * 60 <= at - begun < (minute + 1) * 60]
        if (summary := summarize([seen[t] for t in own if t in seen])) is None:
            break
        found.append(summary)
    return found


class TableFreshness(BaseModel):
    """What one table declares, or the tightest that reads it, and what it kept in the last minute of load."""

    declared: float
    p50: float
    p90: float

    @property
    def missed(self) -> bool:
        return self.p90 > self.declared


def of_tables(statuses: Sequence[TableStatus]) -> dict[str, TableFreshness]:
    """Of every table that has a freshness to keep and got changes."""
    return {
        s.table: TableFreshness(declared=s.freshness_to_keep, p50=s.measured_p50, p90=s.measured_p90)
        for s in statuses
        if s.freshness_to_keep is not None and s.measured_p50 is not None and s.measured_p90 is not None
    }


def summarize(values: Sequence[float]) -> Freshness | None:
    """None where nothing was measured."""
    if not values:
        return None
    ordered = sorted(values)
    p50, p90, p99 = (round(percentile(ordered, share), 3) for share in (0.5, 0.9, 0.99))
    return Freshness(
        p50=p50, p90=p90, p99=p99, min=round(ordered[0], 3), max=round(ordered[-1], 3), samples=len(ordered)
    )


class FreshnessProbe(Background):
    """Reads the newest visible tick over and over, one read at a time. A context manager.

    Args:
        read: returns the visible tick, or None while the row is not there; may raise TransientError.
        interval: seconds from the start of a read to the start of the next, where the read is shorter.
    """

    def __init__(self, read: Callable[[], int | None], *, interval: float = 0.25) -> None:
        super().__init__("freshness-probe", "the live read of the probe")
        self._read, self._interval = read, interval
        self._reads: list[tuple[int, float]] = []
        self.read_seconds: list[float] = []
        self.refused = 0

    @property
    def reads(self) -> list[tuple[int, float]]:
        return list(self._reads)

    @property
    def visible(self) -> int | None:
        """The newest tick that a read has shown."""
        self.raise_if_failed()
        return self._reads[-1][0] if self._reads else None

    @property
    def steps_back(self) -> int:
        """Reads that showed an older tick than the read before: must be zero."""
        reads = self.reads
        return sum(later[0] < earlier[0] for earlier, later in pairwise(reads))

    def _work(self) -> None:
        while not self._stopping.is_set():
            started = time.monotonic()
            self._once()
            self._stopping.wait(started + self._interval - time.monotonic())

    def _once(self) -> None:
        started = time.monotonic()
        try:
            tick = self._read()
        except TransientError:
            self.refused += 1
            return
        now = time.monotonic()
        self.read_seconds.append(now - started)
        if tick is not None:
            self._reads.append((tick, now))
