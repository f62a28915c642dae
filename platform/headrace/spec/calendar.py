"""The calendar of a freshness: `'11-11 = 10 SECOND, SAT/SUN = 1 DAY, MON/FRI 08:00/18:00 = 1 MINUTE'`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from headrace.spec.syntax.interval import LEAST, UNITS, NoInterval, interval, unit_of

if TYPE_CHECKING:
    from headrace.spec.model import TableSpec
    from headrace.spec.project import Project

WEEKDAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
MIDNIGHT = 24 * 60

HINT = "write entries like 11-11 = 10 SECOND, 2026-11-27/2026-11-30 = 1 MINUTE, SAT/SUN 08:00/18:00 = 1 HOUR"

Day = tuple[int, ...]
"""Year, month and day; month and day; or the day of the week, 0 for Monday."""

_KEYS: dict[int, Callable[[date], Day]] = {
    3: lambda on: (on.year, on.month, on.day),
    2: lambda on: (on.month, on.day),
    1: lambda on: (on.weekday(),),
}

_ENTRY = re.compile(
    r"(?:(?P<first>[\w-]+)(?:/(?P<last>[\w-]+))?)?\s*"
    r"(?:(?P<begins>\d\d:\d\d)/(?P<ends>\d\d:\d\d))?\s*=\s*(?P<amount>\d+)\s+(?P<unit>\w+)"
)


class NoCalendar(ValueError):
    """Not a calendar. `hint`: what to write instead."""

    def __init__(self, reason: str, hint: str = HINT) -> None:
        super().__init__(reason)
        self.reason, self.hint = reason, hint


@dataclass(frozen=True)
class Entry:
    """When another freshness counts.

    Args:
        text: as written.
        first, last: days, inclusive, of the same kind; `last` before `first` goes on over the turn of the
            year, or of the week. Empty: each day.
        begins, ends: minutes of the day, `ends` exclusive.
    """

    text: str
    first: Day
    last: Day
    begins: int
    ends: int
    freshness: timedelta

    def holds(self, moment: datetime) -> bool:
        """Whether it counts at this local time."""
        if not self.begins <= moment.hour * 60 + moment.minute < self.ends:
            return False
        if not self.first:
            return True
        day = _KEYS[len(self.first)](moment.date())
        if self.first <= self.last:
            return self.first <= day <= self.last
        return day >= self.first or day <= self.last


@dataclass(frozen=True)
class Calendar:
    """Entries as they stand; the first that holds counts."""

    entries: tuple[Entry, ...]
    zone: tzinfo = UTC

    def __str__(self) -> str:
        return ", ".join(entry.text for entry in self.entries)

    def at(self, moment: datetime) -> Entry | None:
        """The entry that counts at an aware instant; None where what the table declares counts."""
        local = moment.astimezone(self.zone)
        return next((entry for entry in self.entries if entry.holds(local)), None)


def read_calendar(text: str, zone: tzinfo = UTC) -> Calendar:
    """The calendar that a layer file writes. Raises NoCalendar where an entry is wrong."""
    return Calendar(tuple(_entry(part.strip()) for part in text.split(",")), zone)


def read_zone(name: str) -> tzinfo:
    """The time zone of that IANA name. Raises NoCalendar."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise NoCalendar(f"'{name}' is no time zone", "write an IANA name like 'Asia/Shanghai'") from None


def _entry(text: str) -> Entry:
    found = _ENTRY.fullmatch(text)
    if found is None or (found["first"] is None and found["begins"] is None):
        raise NoCalendar(f"`{text}` is no entry of a calendar")
    first = _day(found["first"], text) if found["first"] else ()
    last = _day(found["last"], text) if found["last"] else first
    if len(first) != len(last):
        raise NoCalendar(f"`{text}`: both ends of a range are days of the same kind")
    if len(first) == 3 and last < first:
        raise NoCalendar(f"`{text}` ends before it begins")
    begins = _minute(found["begins"], text) if found["begins"] else 0
    ends = _minute(found["ends"], text) if found["ends"] else MIDNIGHT
    if ends <= begins:
        raise NoCalendar(f"`{text}` ends before it begins", "write two entries: until 24:00, and from 00:00")
    if (unit := unit_of(found["unit"])) is None:
        raise NoCalendar(f"`{text}`: `{found['unit']}` is no unit", "the units are " + ", ".join(UNITS))
    try:
        return Entry(text, first, last, begins, ends, interval(found["amount"], unit))
    except NoInterval as error:
        raise NoCalendar(f"`{text}`: {error.reason}", error.hint or LEAST) from None


def _day(text: str, entry: str) -> Day:
    if text.upper() in WEEKDAYS:
        return (WEEKDAYS.index(text.upper()),)
    try:
        parts = tuple(int(part) for part in text.split("-"))
        date(*(parts if len(parts) == 3 else (2000, *parts)))  # a leap year: 02-29 is a day
    except (ValueError, TypeError):
        raise NoCalendar(f"`{entry}`: `{text}` is no day") from None
    return parts


def _minute(text: str, entry: str) -> int:
    hour, minute = (int(part) for part in text.split(":"))
    if minute > 59 or hour * 60 + minute > MIDNIGHT:
        raise NoCalendar(f"`{entry}`: `{text}` is no time of a day")
    return hour * 60 + minute


def freshness_at(spec: TableSpec, moment: datetime) -> TableSpec:
    """The declaration with the freshness that counts at an instant."""
    entry = spec.calendar.at(moment) if spec.calendar is not None else None
    if entry is None:
        return spec
    return replace(spec, freshness=entry.freshness, freshness_origin=f"its calendar: {entry.text}")


def in_force(project: Project, moment: datetime) -> Project:
    """The project with the freshnesses that count at an instant."""
    return replace(project, tables={n: freshness_at(spec, moment) for n, spec in project.tables.items()})
