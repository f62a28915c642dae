"""From which time to which tables have partitions: Dagster shows these, and none before the data.

Tables that read each other's partitions share one extent, so that a backfill of several is one run: Dagster
splits it over assets whose partitions begin at different times. What they have is read from their files,
which are there also while the warehouse server is not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from headrace.orchestration.lineage import ranged_upstreams
from headrace.results import TableStatus
from headrace.spec.model import TableName, TableSpec
from headrace.spec.partitions.labels import bounds, is_label, label_of

if TYPE_CHECKING:
    from deltalake import DeltaTable

LOOK_SECONDS = 120.0


@dataclass(frozen=True)
class Extent:
    """Beginnings of the first and the last partition, as their labels write them: without a zone."""

    first: datetime
    last: datetime


Extents = Mapping[TableName, Extent | None]

StoredExtent = Callable[[TableSpec], Extent | None]
"""What of a table's partitions is stored; None where there are none."""


def extent_of(spec: TableSpec, labels: Iterable[str | None]) -> Extent | None:
    """That of these values of the table's partition column; what is no label of a time does not count."""
    times = sorted({label for label in labels if label is not None})
    ends = [next((t for t in order if is_label(spec, t)), None) for order in (times, reversed(times))]
    begins = [bounds(spec, label)[0].replace(tzinfo=None) for label in ends if label is not None]
    return Extent(*begins) if begins else None


def stored_extent(spec: TableSpec, snapshot: DeltaTable | None) -> Extent | None:
    """Of the partitions of a table's snapshot; None without any."""
    if spec.partition_column is None or snapshot is None:
        return None
    return extent_of(spec, (values.get(spec.partition_column) for values in snapshot.partitions()))


def shared_extents(tables: Mapping[TableName, TableSpec], stored: StoredExtent) -> Extents:
    """The extent of each table with partitions: what it and all that it is connected to have together.

    Args:
        tables: upstreams before what reads them.
    """
    partitioned = {name: spec for name, spec in tables.items() if spec.partition_format is not None}
    groups = {name: frozenset([name]) for name in partitioned}
    for name, spec in partitioned.items():
        for upstream in ranged_upstreams(spec, tables):
            joined = groups[name] | groups[upstream]
            groups.update(dict.fromkeys(joined, joined))
    own = {name: found for name, spec in partitioned.items() if (found := stored(spec)) is not None}
    together = {
        group: _together([(partitioned[member], own[member]) for member in group if member in own])
        for group in set(groups.values())
    }
    return {name: together[group] for name, group in groups.items()}


class Growth:
    """Whether tables have partitions before those that definitions were made with. One for a process."""

    def __init__(self, look: Callable[[], Extents], made_with: Extents) -> None:
        self._look = look
        self._made_with = made_with
        self._looked = time.monotonic()

    def look(self) -> bool:
        """Read what tables have now."""
        self._looked = time.monotonic()
        for name, extent in self._look().items():
            before = self._made_with.get(name)
            if extent is not None and (before is None or extent.first < before.first):
                return True
        return False

    def look_where_due(self, tables: Iterable[TableStatus]) -> bool:
        """Read it after a while, or at once where a table that had no partition has rows."""
        unknown = {str(name) for name, extent in self._made_with.items() if extent is None}
        first = any(table.rows and table.table in unknown for table in tables)
        return (first or time.monotonic() - self._looked >= LOOK_SECONDS) and self.look()


def _together(found: Iterable[tuple[TableSpec, Extent]]) -> Extent | None:
    """All of them; where in a day its data begins, the tables by the hour say."""
    together: Extent | None = None
    for spec, own in sorted(found, key=lambda f: _first_ends(*f) - f[1].first):
        if together is None:
            together = own
            continue
        inside = own.first < together.first < _first_ends(spec, own)
        first = together.first if inside else min(own.first, together.first)
        together = Extent(first, max(own.last, together.last))
    return together


def _first_ends(spec: TableSpec, extent: Extent) -> datetime:
    return bounds(spec, label_of(spec, extent.first))[1].replace(tzinfo=None)
