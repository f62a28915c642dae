"""When a partition counts as complete, and what a table then does: options of a layer file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, timedelta, tzinfo
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from headrace.spec.syntax.interval import UNITS, in_largest_unit, span

if TYPE_CHECKING:
    from headrace.spec.model import TableSpec

DELAY = "partition.complete.delay"
SIGNAL = "partition.complete.signal"
ZONE = "partition.time-zone"
LATE = "partition.late"
RUN_MODE = "run.mode"

OPTIONS = (DELAY, SIGNAL, ZONE, LATE, RUN_MODE)

_DELAY = re.compile(rf"([0-9]{{1,9}}) +({'|'.join(UNITS)})S?", re.IGNORECASE)


class RunMode(StrEnum):
    """Who writes a table: its stream, the batch once a partition is complete, or both, one held to the other.
    `business` is the stream while a period is open, then the batch, which settles it."""

    REAL_TIME = "real-time"
    OFFLINE = "offline"
    DOUBLE = "real-time, offline"
    BUSINESS = "business"


class Signal(StrEnum):
    """What tells how far a table is: the source's own time, or the clock less the stream's latency."""

    WATERMARK = "watermark"
    LATENCY = "latency"


class LateData(StrEnum):
    """What a change of a complete partition does: its batch runs again, or it is only counted."""

    REOPEN = "reopen"
    IGNORE = "ignore"


@dataclass(frozen=True)
class Completion:
    """Of one table.

    Args:
        delay: how far past a partition's end the signal must be.
        zone: that of the times which the labels name.
    """

    delay: timedelta = timedelta(minutes=5)
    signal: Signal = Signal.WATERMARK
    zone: tzinfo = field(default=UTC)
    late: LateData = LateData.REOPEN
    run_mode: RunMode = RunMode.REAL_TIME


class NoCompletion(ValueError):
    """An option's value is wrong. `hint`: what to write instead."""

    def __init__(self, reason: str, hint: str) -> None:
        super().__init__(reason)
        self.reason, self.hint = reason, hint


E = TypeVar("E", bound=StrEnum)


def read_option(name: str, text: str) -> Mapping[str, object]:
    """The fields of Completion that one of OPTIONS sets, but for ZONE. Raises NoCompletion."""
    if name == DELAY:
        return {"delay": _read_delay(text)}
    if name == SIGNAL:
        return {"signal": _one_of(Signal, text, "signal of a complete partition")}
    if name == LATE:
        return {"late": _one_of(LateData, text, "policy for late data")}
    return {"run_mode": _read_run_mode(text)}


def _read_delay(text: str) -> timedelta:
    found = _DELAY.fullmatch(text.strip())
    if found is None:
        raise NoCompletion(f"'{text}' is no delay", "write a whole number and a unit, such as '5 MINUTE'")
    return span(int(found[1]), found[2].upper())


def _read_run_mode(text: str) -> RunMode:
    """Modes may stand in any order."""
    parts = frozenset(part.strip() for part in text.split(","))
    known = {frozenset(mode.split(", ")): mode for mode in RunMode}
    hint = "write " + " or ".join(f"'{mode}'" for mode in RunMode)
    if parts not in known or len(parts) != len(text.split(",")):
        raise NoCompletion(f"'{text}' is no run mode", hint)
    return known[parts]


def _one_of(kind: type[E], text: str, what: str) -> E:
    if text not in list(kind):
        raise NoCompletion(f"'{text}' is no {what}", "write " + " or ".join(f"'{k}'" for k in kind))
    return kind(text)


def completion_text(spec: TableSpec) -> str:
    """When a partition of a table is complete, in words; empty where it has none by time."""
    if spec.partition_format is None:
        return ""
    own = spec.completion
    by = "the source's time" if own.signal is Signal.WATERMARK else "the clock less the stream's latency"
    then = "opens it again" if own.late is LateData.REOPEN else "is counted, and let be"
    if own.run_mode is RunMode.OFFLINE:
        by = by.replace("source's", "upstreams'").replace("stream's", "upstreams'")
    return f"{delay_text(own.delay)} after its end in {own.zone}, by {by}; late data {then}"


def delay_text(delay: timedelta) -> str:
    """A delay as a layer file says it, in its largest whole unit."""
    amount, unit = in_largest_unit(delay)
    return f"{amount} {unit}"
