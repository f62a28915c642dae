"""An amount of time as people write it: a whole number and a unit."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.spec.syntax.cursor import Cursor
    from headrace.spec.syntax.text import Word

UNITS = {"SECOND": "seconds", "MINUTE": "minutes", "HOUR": "hours", "DAY": "days"}
"""Smallest first, with their names in Python."""

LEAST = "the least is INTERVAL '1' SECOND"


class NoInterval(ValueError):
    """Not an interval that a table can keep. `hint`: what to write instead, "" for nothing."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.reason, self.hint = reason, hint


def interval(amount: str, unit: str) -> timedelta:
    """`INTERVAL 'amount' unit`; the unit is one of UNITS. Raises NoInterval for the amount."""
    if not re.fullmatch(r"[0-9]{1,9}", amount.strip()):
        raise NoInterval(f"`{amount}` is not a positive whole number")
    if int(amount) == 0:
        raise NoInterval("a freshness of zero cannot be met", LEAST)
    return span(int(amount), unit)


def span(amount: int, unit: str) -> timedelta:
    """So many of one of UNITS; none of them, too."""
    return timedelta(**{UNITS[unit]: amount})


def unit_of(word: str) -> str | None:
    """The one of UNITS that a word names, in the singular or the plural; None for another word."""
    unit = word.upper().removesuffix("S")
    return unit if unit in UNITS else None


def read_interval(cursor: Cursor, no_unit: str, form: str) -> tuple[Word, str]:
    """The amount, not yet checked, and the unit of `INTERVAL '10' SECOND`. Raises SpecError.

    Args:
        no_unit: what to say of a word that is no unit, with `{}` for it.
        form: what to write instead.
    """
    cursor.expect("INTERVAL")
    amount = cursor.string("the interval's number")
    word = cursor.name("SECOND, MINUTE, HOUR or DAY")
    if (unit := unit_of(word.upper)) is None:
        raise cursor.error(no_unit.format(word.text), at=word, hint=form)
    return amount, unit


def in_largest_unit(time: timedelta) -> tuple[int, str]:
    """The amount and the one of UNITS; no time at all is in seconds. ValueError: it has parts of a second."""
    for unit in reversed(UNITS):
        amount, rest = divmod(time, span(1, unit))
        if not rest and (amount or unit == "SECOND"):
            return amount, unit
    raise ValueError(f"an interval has whole seconds, not {time}")
