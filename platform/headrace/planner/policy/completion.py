"""Which partitions are complete, from how far a table is, and which of them late data has changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from headrace.spec.model import TableSpec
from headrace.spec.partitions.label_range import LabelRange
from headrace.spec.partitions.labels import bounds, is_label, label_at, label_before, label_of, label_range

MOST = 1_000
"""Partitions that one look finds complete; the next look finds more."""

_LAST_MOMENT = timedelta(microseconds=1)


def end_of(spec: TableSpec, label: str) -> datetime:
    """When the partition is over, in UTC. An hour that the clocks repeat is over after the second one."""
    _, following = bounds(spec, label)
    if following.replace(tzinfo=None) == datetime.max:
        return following
    last = (following - _LAST_MOMENT).replace(tzinfo=spec.completion.zone, fold=1)
    return last.astimezone(UTC) + _LAST_MOMENT


def newest_complete(spec: TableSpec, signal: datetime) -> str | None:
    """The newest partition that is complete, with all before it; None before there is any.

    Args:
        signal: how far the table is, an aware instant.
    """
    try:
        moment = signal - spec.completion.delay
        label = label_at(spec, moment)
        while end_of(spec, label) > moment:
            label = label_before(spec, label)
    except OverflowError:
        return None
    return label


def newly_complete(spec: TableSpec, signal: datetime, after: str) -> list[str]:
    """The partitions that became complete since `after` was the newest one, oldest first, at most MOST."""
    newest = newest_complete(spec, signal)
    if newest is None or newest <= after:
        return []
    _, begin = bounds(spec, after)
    first = label_of(spec, begin)
    span = bounds(spec, first)[1] - begin
    last = min(newest, label_of(spec, begin + span * (MOST - 1)))
    return label_range(spec, LabelRange(first, last))


def late(spec: TableSpec, changed: Iterable[str | None], through: str) -> list[str]:
    """Of the partitions that a commit changed those that were complete before.

    Args:
        through: the newest complete partition.
    """
    return sorted(c for c in changed if c is not None and c <= through and is_label(spec, c))


def runs_of(spec: TableSpec, labels: Sequence[str], at_once: int) -> list[list[str]]:
    """The labels in runs without a gap, each of so many at most: what one batch takes.

    Args:
        labels: sorted.
    """
    runs: list[list[str]] = []
    for label in labels:
        follows = runs and bounds(spec, runs[-1][-1])[1] == bounds(spec, label)[0]
        if follows and len(runs[-1]) < at_once:
            runs[-1].append(label)
        else:
            runs.append([label])
    return runs
