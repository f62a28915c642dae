"""Partition labels as Dagster partitions: a partition's key is the very label the table holds."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta

import dagster as dg

from headrace.spec.model import TableSpec
from headrace.spec.partitions.labels import FIELDS

# A constant, because definitions are loaded again and again and a moving start would lose old partitions.
# One for every table, because Dagster splits a single-run backfill over assets whose starts differ.
DEFAULT_START = date(2026, 1, 1)

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


def partitions_of(spec: TableSpec, start: date = DEFAULT_START) -> Partitions | None:
    """The table's partitions from `start` to the one that is open now, in UTC; None where it has none."""
    if spec.partition_column is None or (pattern := spec.partition_format) is None:
        return None
    fmt = re.sub("|".join(FIELDS), lambda field: FIELDS[field[0]], pattern)
    finest = _finest(pattern)
    beginning = datetime.combine(start, time(), tzinfo=UTC)
    if finest == "HH":  # the subclasses only have the better description in the UI
        return dg.HourlyPartitionsDefinition(beginning, timezone="UTC", fmt=fmt, end_offset=1)
    if finest == "dd":
        return dg.DailyPartitionsDefinition(beginning, timezone="UTC", fmt=fmt, end_offset=1)
    return Partitions(
        start=beginning, fmt=fmt, cron_schedule=_PERIODS[finest][0], timezone="UTC", end_offset=1
    )


def period_of(spec: TableSpec) -> timedelta | None:
    """How long one partition is at most; None where the table has none."""
    return _PERIODS[_finest(spec.partition_format)][1] if spec.partition_format else None


def _finest(pattern: str) -> str:
    return next(field for field in _PERIODS if field in pattern)
