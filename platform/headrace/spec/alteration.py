"""What a statement sets of a table, over what its layer file declares."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Literal, get_args

from headrace.errors import TerminalError
from headrace.spec.model import RefreshMode, TableName, TableSpec
from headrace.spec.partitions.completion import RUN_MODE, RunMode
from headrace.spec.syntax.interval import UNITS, in_largest_unit, interval

Property = Literal["FRESHNESS", "REFRESH_MODE"]
PROPERTIES: tuple[Property, ...] = get_args(Property)

DOWNSTREAM = "DOWNSTREAM"

_INTERVAL = re.compile(rf"INTERVAL '([0-9]+)' ({'|'.join(UNITS)})")


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


def freshness_text(freshness: timedelta | None) -> str:
    """A freshness as a layer file says it, in its largest whole unit. None: DOWNSTREAM."""
    if freshness is None:
        return DOWNSTREAM
    amount, unit = in_largest_unit(freshness)
    return f"INTERVAL '{amount}' {unit}"


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
