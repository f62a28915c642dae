"""What helps a flow that misses its freshness: larger micro-batches, and fewer tables that stream."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from headrace.spec.model import TableName

LARGEST = 200_000
"""Messages of a micro-batch above which its fixed costs no longer matter."""

GAIN = 1.1
"""Messages a second that twice as many in a micro-batch must bring, times those before."""

LATE_SECONDS, STEADY_SECONDS = 60.0, 600.0
"""How long a flow is late before loose tables leave it, and on time before they come back."""

LOOSE_TIMES = 10.0
"""Times the tightest freshness of a flow that a table declares which may leave it."""


class BatchSize:
    """Messages of one micro-batch. Full ones of a late flow have a backlog behind them, and every micro-batch
    has fixed costs: more messages in each work it off sooner. Doubled for as long as that brings something.

    Args:
        declared: what a micro-batch has at most while nothing is late.
    """

    def __init__(self, declared: int) -> None:
        self._declared = self.size = declared
        self._rate = 0.0

    def took(self, messages: int, seconds: float) -> bool:
        """Take one micro-batch of a late flow. Returns whether the size has changed."""
        full = 10 * messages >= 9 * self.size  # a share of every partition is not to the message
        rate = messages / max(seconds, 1e-3)
        if not full or self.size >= LARGEST or rate < GAIN * self._rate:
            return False
        self._rate, self.size = rate, min(LARGEST, 2 * self.size)
        return True

    def on_time(self) -> bool:
        """Nothing is late any more. Returns whether the size has changed."""
        was, self.size, self._rate = self.size, self._declared, 0.0
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
