"""Which of the refreshes that are due goes first, where tables read each other.

Earliest deadline first. What a table reads goes before it and has its deadline, where that is earlier:
Chetto, Silly and Bouchentouf, Dynamic Scheduling of Real-Time Tasks under Precedence Constraints, 1990.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from typing import TypeVar

K = TypeVar("K", bound=Hashable)


def most_urgent(deadlines: Mapping[K, float], reads: Callable[[K], Collection[K]]) -> K:
    """The one to begin now.

    Args:
        deadlines: of what is due, at least one, by any clock.
        reads: what a table reads directly, in no circle; what is not due counts for nothing.
    """
    depths: dict[K, int] = {}

    def depth(key: K) -> int:
        if key not in depths:
            depths[key] = 1 + max((depth(up) for up in reads(key) if up in deadlines), default=0)
        return depths[key]

    urgency = dict(deadlines)
    for key in sorted(deadlines, key=depth, reverse=True):
        for up in reads(key):
            if up in urgency:
                urgency[up] = min(urgency[up], urgency[key])
    return min(deadlines, key=lambda key: (urgency[key], depth(key), deadlines[key]))
