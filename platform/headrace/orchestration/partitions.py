"""Partition labels as Dagster partitions: a partition's key is the very label the table holds."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta

import dagster as dg

from headrace.orchestration.extent import Extent
from headrace.spec.model import TableSpec
from headrace.spec.partitions.labels import FIELDS

# Where nothing is known. A constant, because definitions are loaded again and again.
DEFAULT_START = date(2026, 1, 1)

MOST_AHEAD = 10_000
"""Partitions after the open one: a wrong year in one row must not make a million."""

# How often a stream reports a table without partitions as materialized.
WHOLE_TABLE_PERIOD = timedelta(hours=1)

# The finest field of a date-formatter: when its partitions begin, and how long one is at most.
_PERIODS = {
    "mm": ("* * * * *", timedelta(minutes=1)),
    "HH": ("0 * * * *", timedelta(hours=1)),
    "dd": ("0 0 * * *", timedelta(days=1)),
    "MM": ("0 0 1 * *", timedelta(days=31)),
    "yyyy": ("0 0 1 1 *", timedelta(days=366)),
}

Partitions = dg.TimeWindowPartitionsDefinition


def partitions_of(
    spec: TableSpec, extent: Extent | None, *, now: datetime, start: date | None = None
) -> Partitions | None:
    """The table's partitions, in the zone of its labels; None where it has none.

    They go from the first one that it, or what it is connected to, has any rows of, to the one that is open,
    or to the last one that has rows where that comes later.

    Args:
        extent: what it and the tables that it is connected to have; None where nothing is known.
        now: any moment near the present, with a zone.
        start: the first partition's date, in place of where the data begins.
    """
    if spec.partition_column is None or (pattern := spec.partition_format) is None:
        return None
    fmt = re.sub("|".join(FIELDS), lambda field: FIELDS[field[0]], pattern)
    finest, zone = _finest(pattern), spec.completion.zone
    if start is not None or extent is None:
        first = datetime.combine(start or DEFAULT_START, time())
    else:
        first = extent.first
    ahead = 0 if extent is None else _index(spec, extent.last) - _index(spec, now.astimezone(zone))
    beginning, offset = _floor(first, finest), 1 + min(max(ahead, 0), MOST_AHEAD)
    if finest == "HH":  # the subclasses only have the better description in the UI
        return dg.HourlyPartitionsDefinition(beginning, timezone=str(zone), fmt=fmt, end_offset=offset)
    if finest == "dd":
        return dg.DailyPartitionsDefinition(beginning, timezone=str(zone), fmt=fmt, end_offset=offset)
    return Partitions(
        start=beginning,
        fmt=fmt,
        cron_schedule=_PERIODS[finest][0],
        timezone=str(zone),
        end_offset=offset,
    )


def label_of_key(spec: TableSpec, key: str) -> str:
    """The label that a partition's key names. Where clocks are set back, Dagster gives an hour that comes
    twice a second key, with its distance from UTC; in the table both are one partition."""
    return key[: len(spec.partition_format or key)]


def period_of(spec: TableSpec) -> timedelta | None:
    """How long one partition is at most; None where the table has none."""
    return _PERIODS[_finest(spec.partition_format)][1] if spec.partition_format else None


def _finest(pattern: str) -> str:
    return next(field for field in _PERIODS if field in pattern)


def _floor(moment: datetime, finest: str) -> datetime:
    """When the partition begins that holds a time, as the label writes it."""
    zeros = {"yyyy": {"month": 1}, "MM": {"day": 1}, "dd": {"hour": 0}, "HH": {"minute": 0}, "mm": {}}
    kept = list(zeros)[: list(zeros).index(finest) + 1]
    rest = {name: value for field in zeros if field not in kept[:-1] for name, value in zeros[field].items()}
    return moment.replace(tzinfo=None, second=0, microsecond=0, **rest)


def _index(spec: TableSpec, moment: datetime) -> int:
    """Numbers partitions by time, as the label writes it; those of hours and minutes as time elapses."""
    finest = _finest(spec.partition_format or "")
    begin = _floor(moment, finest)
    if finest in ("HH", "mm"):
        elapsed = begin.replace(tzinfo=spec.completion.zone).timestamp()
        return int(elapsed // _PERIODS[finest][1].total_seconds())
    if finest == "dd":
        return begin.toordinal()
    return begin.year * 12 + begin.month if finest == "MM" else begin.year
