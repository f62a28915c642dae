"""What a statement sets of a table, over what its layer file declares."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Literal, get_args

from headrace.errors import TerminalError
from headrace.spec.completion import RUN_MODE, RunMode
from headrace.spec.model import RefreshMode, TableName, TableSpec

Property = Literal["FRESHNESS", "REFRESH_MODE"]
PROPERTIES: tuple[Property, ...] = get_args(Property)

UNITS = {"SECOND": "seconds", "MINUTE": "minutes", "HOUR": "hours", "DAY": "days"}
"""Of a freshness, smallest first, with their names in Python."""

DOWNSTREAM = "DOWNSTREAM"

_INTERVAL = re.compile(r"INTERVAL '([0-9]+)' (SECOND|MINUTE|HOUR|DAY)")


@dataclass(frozen=True)
class Alteration:
    """One property that a statement has set.

    Args:
        value: as a layer file would say it: `INTERVAL '10' SECOND`, `DOWNSTREAM`, `CONTINUOUS`.
        over: what the table's file said then, "" for nothing. Once it says something else, the file is the
            newer word, and counts.
    """

    table: TableName
    what: Property
    value: str
    over: str


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
    return timedelta(**{UNITS[unit]: int(amount)})


def freshness_text(freshness: timedelta | None) -> str:
    """A freshness as a layer file says it, in its largest whole unit. None: DOWNSTREAM."""
    if freshness is None:
        return DOWNSTREAM
    for unit, name in reversed(UNITS.items()):
        amount, rest = divmod(freshness, timedelta(**{name: 1}))
        if not rest:
            return f"INTERVAL '{amount}' {unit}"
    raise ValueError(f"a freshness has whole seconds, not {freshness}")


def declared(spec: TableSpec, what: Property) -> str:
    """What `spec` says of the property, "" for nothing."""
    if what == "FRESHNESS":
        calendar = f" ({spec.calendar})" if spec.calendar is not None else ""
        return freshness_text(spec.freshness) + calendar
    return str(spec.refresh_mode) if spec.refresh_mode is not None else ""


def check_alteration(spec: TableSpec, what: Property, value: str | None) -> None:
    """Refuse what cannot be. Raises TerminalError."""
    if what == "REFRESH_MODE" and value is not None and spec.run_mode is RunMode.OFFLINE:
        raise TerminalError(
            f"`{spec.name}` is '{RunMode.OFFLINE}': its batch writes alone, whatever the mode. Next: edit "
            f"'{RUN_MODE}' in {spec.path}, then `headrace apply`"
        )
    if what == "REFRESH_MODE" and spec.source is not None and value not in (None, RefreshMode.CONTINUOUS):
        raise TerminalError(
            f"`{spec.name}` reads a source, so it always streams: Kafka does not keep its events for ever. "
            "Next: set the mode of the tables that read it"
        )


def altered(spec: TableSpec, alterations: Iterable[Alteration]) -> TableSpec:
    """The declaration with these in place of what the file says; a freshness in place of its calendar, too.

    Raises:
        ValueError: a value that no layer file could have.
    """
    for alteration in alterations:
        if alteration.what == "FRESHNESS":
            freshness = _freshness(alteration.value)
            spec = replace(spec, freshness=freshness, calendar=None, freshness_origin="a statement")
        else:
            spec = replace(spec, refresh_mode=RefreshMode(alteration.value))
    return spec


def _freshness(text: str) -> timedelta | None:
    if text == DOWNSTREAM:
        return None
    found = _INTERVAL.fullmatch(text)
    if found is None:
        raise ValueError(f"`{text}` is no freshness")
    return interval(found[1], found[2])
