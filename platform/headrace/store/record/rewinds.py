"""Which versions of a changelog lead to the rows of a later one, where the table was rewound in between.

A rewind is a version like any other: its changes bring the rows back to what they were at an older version.
So two roads lead from that older version to what follows the rewind: all changes in order, or none of those
that were taken back. Who stands at or before the older version takes the second one, and need not know
that anything was ever rewound.
"""

from __future__ import annotations

Rewinds = tuple[tuple[int, int], ...]
"""`(version of the rewind, version whose rows it brought back)`, ascending."""

NEWEST = 1 << 62
"""Stands for the newest version, whichever it is."""


def live_ranges(rewinds: Rewinds, after: int, through: int) -> list[tuple[int, int]]:
    """The ranges `(a, b]` of versions whose changes lead from the rows at `after` to those at `through`.

    Returns:
        Ascending; none is empty. What a rewind took back is left out with the rewind itself, unless `after`
        is one of the versions taken back: from there only the rewind's own changes lead on.
    """
    return [(begin, end) for begin, end in _ranges(rewinds, after, through) if begin < end]


def descends(rewinds: Rewinds, old: int, new: int) -> bool:
    """Whether the rows at `new` came about by going on from those at `old`, nothing of them taken back."""
    return old <= new and any(begin <= old <= end for begin, end in _ranges(rewinds, 0, new))


def _ranges(rewinds: Rewinds, after: int, through: int) -> list[tuple[int, int]]:
    at, to = max(((a, t) for a, t in rewinds if after < a <= through), default=(0, 0))
    if not at or after > to:
        return [(after, through)]
    return [*_ranges(rewinds, after, to), (at, through)]
