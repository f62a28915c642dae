"""Which partitions the batch writes next of a table that no stream writes."""

from __future__ import annotations

from collections.abc import Collection

from headrace.errors import SpecError
from headrace.planner.policy.completion import late
from headrace.spec.model import TableSpec
from headrace.spec.partitions.label_range import LabelRange
from headrace.spec.partitions.labels import label_after, label_range

MOST = 1_000
"""Partitions of one run; more are run as the whole table."""


def partitions_to_run(
    spec: TableSpec, written: str, through: str, touched: Collection[str | None] | None
) -> frozenset[str] | None:
    """The partitions that make the table what its query gives up to `through`; None: all of them.

    Args:
        written: the partition up to which it has been written before; "" where it never was.
        through: the partition up to which it is to be written, not before `written`.
        touched: the partitions that its upstreams' changes since then are in; None where that is not known.
    """
    if not written or touched is None:
        return None
    again = late(spec, touched, written)
    new: list[str] = []
    if through > written:
        try:
            new = label_range(spec, LabelRange(label_after(spec, written), through))
        except SpecError:  # more than anybody counts
            return None
    return frozenset(new).union(again) if len(new) + len(again) <= MOST else None
