"""The closed loop of freshness: when a table is refreshed next, and whether one misses what it declares."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

KEPT_SHARE = 0.9
"""Part of a declared freshness that a schedule uses up; the rest is for what nobody foresees."""

SLOWER = 1.2
"""How much longer than the longest of its last refreshes the next one may take."""

LATE_LOOKS, CALM_LOOKS = 4, 40
"""Looks in a row that must agree before a table counts as late, or as on time again."""

CALM_SHARE = 0.7
"""Part of the declared freshness below which a late table may be on time again."""


def refresh_interval(freshness: float, took: Collection[float], levels: int) -> float:
    """Seconds from the beginning of one scheduled refresh to that of the next.

    A change just after a refresh began waits for the next one, and shows at its end: interval and duration
    together must be within the freshness. A table over others that are refreshed on a schedule has only a
    part of it, since their changes come late already.

    Args:
        took: seconds of past refreshes; none: two refreshes within the freshness.
        levels: tables refreshed on a schedule on the longest way to this one, itself included.
    """
    part = freshness / levels
    if not took:
        return part / 2
    return max(0.0, KEPT_SHARE * part - SLOWER * max(took))


@dataclass
class FreshnessState:
    """Whether a table that streams misses its freshness.

    It takes more to come back than to leave (a Schmitt trigger), so that measurements about the limit do not
    turn it to and fro.

    Args:
        late: it does.
    """

    late: bool = False
    _agreeing: int = 0

    def look(self, declared: float, measured: float | None) -> bool:
        """Take one measurement. Returns whether `late` has turned.

        Args:
            declared: seconds, as is `measured`; None where nothing changed of late.
        """
        if self.late:
            agrees = measured is None or measured < CALM_SHARE * declared
        else:
            agrees = measured is not None and measured > declared
        self._agreeing = self._agreeing + 1 if agrees else 0
        if self._agreeing < (CALM_LOOKS if self.late else LATE_LOOKS):
            return False
        self.late, self._agreeing = not self.late, 0
        return True
