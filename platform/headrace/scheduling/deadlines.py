"""Which of many recurring refreshes runs next: the one whose deadline is earliest.

EDF: Liu and Layland, Scheduling Algorithms for Multiprogramming in a Hard-Real-Time Environment, 1973. A
refresh shows at its end the changes of before its beginning. So a change just after that waits for the next
one, and has to be in the table within the freshness counted from when it was there: that is the deadline.

Where more is declared than can be kept, EDF alone lets every table be late. So the loosest give way first:
their freshness is stretched by as much as is missing, and the others' is kept. Nothing starves, because what
is stretched has a deadline, too.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

CAPACITY = 0.9
"""Share of the time that refreshes may take; the rest is for what nobody foresees."""

SPACING = (0.025, 0.4)
"""Of its freshness, what lies between the beginnings of two refreshes of a table: at least, and where there
is no time. Less than half, because a refresh that then begins has the rest left, and what it reads may have
come as late."""

LEISURE = 0.6
"""Share of the time that refreshes take where less would keep what is declared: they come more often."""

FOLLOWING, AHEAD = 0.9, 0.75
"""Of what lies between two refreshes of a table that reads another one of these: how far apart its own are at
least, on average, and how far one may come before its time (the cell rate algorithm of ITU-T I.371). So it
follows what it reads at once, about as often, and does not wait once more for as long."""

SMOOTHING = (0.3, 0.7)
"""Weight of the newest refresh in the expected seconds, where it took longer and where it took less. The
first one of a table does not count: it reads all that there is, cold, and says nothing of the others."""

MOST_STRETCH = 4.0
"""How many times later than declared the loosest may be so that the others keep theirs; twice what all of
them together would have to bear, where that is more."""

TIGHTEST = 0.1
"""Seconds: less is taken for this, also no freshness at all."""

REVIEW_SECONDS = 5.0
"""How long what can be kept counts as known."""

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True)
class Demand:
    """What one table asks for. Seconds.

    Args:
        freshness: within which a change must be in the table.
        cost: of one refresh, as expected.
    """

    freshness: float
    cost: float

    @property
    def utilization(self) -> float:
        """Share of the time that it needs at least."""
        return self.cost / (SPACING[1] * self.freshness)


@dataclass(frozen=True)
class Allowance(Generic[K]):
    """What can be kept of what is declared.

    Args:
        spacing: see `SPACING`.
        stretch: times its freshness that each table gives way by; those that keep theirs are not there.
    """

    spacing: float
    stretch: Mapping[K, float]


def allow(demands: Mapping[K, Demand]) -> Allowance[K]:
    """Keep what is declared while there is capacity; else let the loosest give way, few of them, equally."""
    total = sum(demand.utilization for demand in demands.values())
    if total <= CAPACITY:
        low, high = SPACING
        return Allowance(min(high, max(low, high * total / LEISURE)), {})
    most = max(MOST_STRETCH, 2 * total / CAPACITY)
    loose = sorted(demands, key=lambda key: demands[key].freshness)
    kept, stretch = 0.0, total / CAPACITY
    while loose:
        more = kept + demands[loose[0]].utilization
        if more >= CAPACITY or (total - more) / (CAPACITY - more) > most:
            break
        kept, stretch = more, (total - more) / (CAPACITY - more)
        loose.pop(0)
    return Allowance(SPACING[1], dict.fromkeys(loose, stretch))


@dataclass
class _Recurring:
    """
    Args:
        cost: seconds expected of a refresh; None before the second one has ended.
        due: of one that follows, when its next one is due.
        follows: whether it reads another one of these.
        entry: number of its newest entry in the heaps; older ones count no more.
    """

    freshness: float
    cost: float | None = None
    first: bool = True
    begun: float | None = None
    due: float = 0.0
    follows: bool = False
    asked: float | None = None
    entry: int = -1


class Deadlines(Generic[K]):
    """What asks to be refreshed, and when its turn is.

    Not thread-safe. Times are seconds of one ascending clock.
    """

    def __init__(self) -> None:
        self._known: dict[K, _Recurring] = {}
        self._allowed: Allowance[K] = Allowance(SPACING[0], {})
        self._reviewed: float | None = None
        self._entries = itertools.count()
        self._early: list[tuple[float, int, K]] = []
        """By when they may begin: those that were refreshed just now."""
        self._ready: list[tuple[float, int, K]] = []
        """By their deadlines."""

    def ask(self, key: K, freshness: float, now: float, *, follows: bool = False) -> None:
        """The table has changes to take in. Once is enough until its refresh begins.

        Args:
            follows: whether they come of another table here.
        """
        freshness = max(freshness, TIGHTEST)
        table = self._known.setdefault(key, _Recurring(freshness))
        table.follows = follows
        if table.asked is not None and table.freshness == freshness:
            return
        table.freshness, table.asked = freshness, now if table.asked is None else table.asked
        self._enter(key, table)

    def next(self, now: float) -> tuple[K | None, float | None]:
        """The table to refresh now; without one the seconds until there is, None where none asks."""
        self._review(now)
        while self._early and self._early[0][0] <= now:
            _, entry, key = heapq.heappop(self._early)
            table = self._known.get(key)
            if table is not None and table.entry == entry:
                assert table.asked is not None
                heapq.heappush(self._ready, (table.asked + self._within(key, table), entry, key))
        _drop_former(self._ready, self._known)
        _drop_former(self._early, self._known)
        if self._ready:
            return self._ready[0][2], None
        return None, self._early[0][0] - now if self._early else None

    def begin(self, key: K, now: float) -> None:
        """The table's refresh begins: it has what was there before."""
        table = self._known[key]
        table.begun, table.asked, table.entry = now, None, -1
        table.due = max(table.due, now) + FOLLOWING * self._spacing(key, table)

    def end(self, key: K, now: float) -> None:
        """The refresh that began last has ended."""
        table = self._known.get(key)
        if table is not None and table.begun is not None:
            table.cost = None if table.first else _expected(table.cost, now - table.begun)
            table.first = False

    def stretch(self, key: K) -> float:
        """How many times later than declared the table may be now, so that tighter ones are not late."""
        return self._allowed.stretch.get(key, 1.0)

    def retain(self, keys: Collection[K]) -> None:
        """Forget all tables but these."""
        self._known = {key: table for key, table in self._known.items() if key in keys}
        self._reviewed = None

    def _spacing(self, key: K, table: _Recurring) -> float:
        return self._allowed.spacing * self._within(key, table)

    def _within(self, key: K, table: _Recurring) -> float:
        return table.freshness * self.stretch(key)

    def _enter(self, key: K, table: _Recurring) -> None:
        assert table.asked is not None
        at = table.asked
        if table.begun is not None:
            due = table.begun + self._spacing(key, table)
            if table.follows and self._allowed.spacing < SPACING[1]:
                due = min(due, table.due - AHEAD * self._spacing(key, table))
            at = max(at, due)
        table.entry = next(self._entries)
        heapq.heappush(self._early, (at, table.entry, key))

    def _review(self, now: float) -> None:
        """Find anew what can be kept, now and then, and what follows for those that wait."""
        if self._reviewed is not None and now < self._reviewed + REVIEW_SECONDS:
            return
        self._reviewed = now
        self._allowed = allow({key: Demand(t.freshness, t.cost or 0.0) for key, t in self._known.items()})
        self._early, self._ready = [], []
        for key, table in self._known.items():
            if table.asked is not None:
                self._enter(key, table)


def _expected(cost: float | None, took: float) -> float:
    if cost is None:
        return took
    more, less = SMOOTHING
    return cost + (more if took > cost else less) * (took - cost)


def _drop_former(heap: list[tuple[float, int, K]], known: Mapping[K, _Recurring]) -> None:
    while heap and ((table := known.get(heap[0][2])) is None or table.entry != heap[0][1]):
        heapq.heappop(heap)
