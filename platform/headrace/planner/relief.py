"""What helps a flow that misses its freshness: smaller micro-batches, and fewer tables that stream."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from headrace.spec.model import TableName

LEAST = 20_000
"""Messages below which a micro-batch is not made smaller: its fixed costs are most of it by then."""

SHORT = 0.25
"""Part of the freshness below which a full micro-batch took so little that the next one may have more."""

WORTH = 0.7
"""Messages a second that smaller micro-batches keep of what larger ones did, at least."""

LATE_SECONDS, STEADY_SECONDS = 60.0, 600.0
"""How long a flow is late before loose tables leave it, and on time before they come back."""

LOOSE_TIMES = 10.0
"""Times the tightest freshness of a flow that a table declares which may leave it."""


@dataclass(frozen=True)
class _Tried:
    size: int
    rate: float


class BatchSize:
    """Messages of one micro-batch of a late flow: what is in it shows at its end, so none should take longer
    than the freshness. Climbs by halves and doubles, and takes a half back that costs too much throughput.

    Args:
        most: what is read at once while nothing is late.
    """

    def __init__(self, most: int) -> None:
        self.most = self.size = most
        self._least = min(most, LEAST)
        self._before: _Tried | None = None

    def took(self, messages: int, seconds: float, freshness: float) -> bool:
        """Take one micro-batch of a late flow. Returns whether the size has changed.

        Args:
            freshness: the tightest of the flow, seconds.
        """
        tried, self._before = self._before, None
        rate, was = messages / max(seconds, 1e-3), self.size
        full = 10 * messages >= 9 * self.size
        if tried is not None and full and rate < WORTH * tried.rate:
            self.size = self._least = tried.size  # not to be tried again while it is late
        elif seconds > freshness and messages // 2 >= self._least:
            self._before = _Tried(min(messages, self.size), rate)
            self.size = messages // 2
        elif full and seconds < SHORT * freshness:
            self.size = min(self.most, 2 * self.size)
        return self.size != was

    def on_time(self) -> bool:
        """Nothing is late any more. Returns whether the size has changed."""
        was, self.size = self.size, self.most
        self._least, self._before = min(self.most, LEAST), None
        return was != self.size


class Thinning:
    """Whether the loose tables of one flow have left it. Each time that it was in vain to take them back,
    the flow has to be on time for twice as long."""

    def __init__(self) -> None:
        self.thinned = False
        self._late: bool | None = None
        self._since = 0.0
        self._steady = STEADY_SECONDS / 2

    def look(self, late: bool, now: float) -> bool:
        """Returns whether `thinned` has turned.

        Args:
            now: seconds, always ascending.
        """
        if late is not self._late:
            self._late, self._since = late, now
        if late is self.thinned or now - self._since < (LATE_SECONDS if late else self._steady):
            return False
        if late:
            self._steady *= 2
        self.thinned = late
        return True


def loose_tables(
    freshness: Mapping[TableName, float], tightest: float, readers: Mapping[TableName, Collection[TableName]]
) -> frozenset[TableName]:
    """The tables of a flow that may leave it: much looser than its tightest, as is all of it that reads them.

    Args:
        freshness: seconds, of those whose mode follows from it; the others must stay.
        tightest: the least of all tables of the flow.
        readers: of every table of the flow those within the flow.
    """
    found = {name for name, seconds in freshness.items() if seconds >= LOOSE_TIMES * tightest}
    while fixed := {name for name in found if not found.issuperset(readers[name])}:
        found -= fixed
    return frozenset(found)
