"""What work costs, in processor seconds of the warehouse server and its JVM, by table and kind of work.

Neither operating system nor Spark knows for which table a thread works, or what the JVM compiles and collects
meanwhile. So all that the two processes spend is divided: as long as some works are under way at once, among
them in equal parts, and while none is, to nobody. What executors of a cluster spend is not seen.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import psutil

from headrace.results import TableCost, Work

SHARED = ""
"""Of a flow's work for all of its tables together: reading its topics, say. It is charged what is left."""


class Charged(NamedTuple):
    """Whom it is charged to."""

    table: str
    work: Work


@dataclass(frozen=True)
class Cost:
    """
    Args:
        core_seconds: processor time.
        seconds: by the clock.
        runs: how often.
        changes: rows that it changed.
    """

    core_seconds: float = 0.0
    seconds: float = 0.0
    runs: int = 0
    changes: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.core_seconds + other.core_seconds,
            self.seconds + other.seconds,
            self.runs + other.runs,
            self.changes + other.changes,
        )

    def told(self, to: Charged) -> TableCost:
        """As statements and the catalog have it."""
        return TableCost(
            table=to.table,
            work=to.work,
            core_seconds=self.core_seconds,
            seconds=self.seconds,
            runs=self.runs,
            changes=self.changes,
        )


@dataclass
class Unit:
    """One piece of work; whoever does it says what it changed.

    Args:
        run: as its commits have it.
    """

    charged: Charged
    run: str = ""
    changes: int = 0


@dataclass
class Meter:
    """Thread-safe. Work inside other work of the same thread is charged to its own table alone.

    Args:
        spent: processor seconds of all that is metered, since whenever.
    """

    spent: Callable[[], float] = time.process_time
    _active: dict[int, Unit] = field(default_factory=dict)
    _costs: dict[Charged, Cost] = field(default_factory=dict)
    _taken: dict[Charged, Cost] = field(default_factory=dict)
    _last: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._last = self.spent()

    def follow(self, jvm: int) -> None:
        """Meter this process and its JVM, from now on.

        Args:
            jvm: process id.
        """
        process = psutil.Process(jvm)

        def spent() -> float:
            try:
                times = process.cpu_times()
            except psutil.Error:  # it has ended, and this process is about to
                return self._last
            return time.process_time() + float(times.user) + float(times.system)

        with self._lock:
            self._settle()
            self.spent, self._last = spent, spent()

    @contextmanager
    def of(self, table: object, work: Work, run: str = "") -> Iterator[Unit]:
        """While the block lasts, this thread works for a table."""
        unit, thread, begun = Unit(Charged(str(table), work), run), threading.get_ident(), time.monotonic()
        with self._lock:
            self._settle()
            around = self._active.get(thread)
            self._active[thread] = unit
        try:
            yield unit
        finally:
            with self._lock:
                self._settle()
                if around is None:
                    del self._active[thread]
                else:
                    self._active[thread] = around
                self._add(unit.charged, Cost(0.0, time.monotonic() - begun, 1, unit.changes))

    def take(self) -> Mapping[Charged, Cost]:
        """What was charged since it was taken last."""
        with self._lock:
            self._settle()
            costs, self._costs = self._costs, {}
            self._taken = _sums(self._taken, costs)
        return costs

    def total(self) -> Mapping[Charged, Cost]:
        """What was charged since the beginning."""
        with self._lock:
            self._settle()
            return _sums(self._taken, self._costs)

    def told(self, thread: int) -> dict[str, str]:
        """What a thread works for now, for the log: `table`, `work` and `run`, as far as there are any."""
        unit = self._active.get(thread)
        if unit is None:
            return {}
        known = {"table": unit.charged.table, "work": unit.charged.work, "run": unit.run}
        return {name: value for name, value in known.items() if value}

    def _settle(self) -> None:
        """Charge what was spent since the last look to those who worked."""
        now = self.spent()
        spent, self._last = max(0.0, now - self._last), now
        working = [unit for unit in self._active.values() if unit.charged.table != SHARED]
        working = working or list(self._active.values())
        for unit in working:
            self._add(unit.charged, Cost(core_seconds=spent / len(working)))

    def _add(self, charged: Charged, cost: Cost) -> None:
        self._costs[charged] = self._costs.get(charged, Cost()) + cost


def _sums(some: Mapping[Charged, Cost], others: Mapping[Charged, Cost]) -> dict[Charged, Cost]:
    return {key: some.get(key, Cost()) + others.get(key, Cost()) for key in {**some, **others}}


METER = Meter()
"""Of this server."""
