"""When tables that no flow advances are refreshed: within their freshness, by what refreshes took so far."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.engine.table import Registry, Table
from headrace.planner.control import refresh_interval
from headrace.spec.model import TableName

UNDECLARED_SECONDS = 60.0
"""Freshness of a table that declares none and that nothing with one reads."""

PAST = 5
"""Refreshes of a table whose durations count."""


@dataclass
class _Past:
    begun: float
    took: deque[float] = field(default_factory=lambda: deque(maxlen=PAST))


class Schedule:
    """Of the tables in `scheduled`, which the arrangement keeps."""

    def __init__(self, registry: Registry, scheduled: Sequence[Table]) -> None:
        self._registry = registry
        self._scheduled = scheduled
        self._past: dict[TableName, _Past] = {}
        self._from_nothing: set[TableName] = set()

    def due(self, table: Table) -> bool:
        """Whether it is to be refreshed now."""
        past = self._past.get(table.name)
        if past is None or table.name in self._from_nothing:
            found = any(u.store.version > 0 for u in self._registry.upstreams(table).values())
            (self._from_nothing.discard if found else self._from_nothing.add)(table.name)
            # A refresh over nothing is none: the first one comes as soon as an upstream has rows.
            if past is None or found:
                return True
        freshness = table.freshness.total_seconds() if table.freshness else UNDECLARED_SECONDS
        levels = self._levels(table, {t.name for t in self._scheduled})
        return time.monotonic() >= past.begun + refresh_interval(freshness, past.took, levels)

    def succeeded(self, table: Table, begun: float) -> None:
        """Note a refresh that ends now; `begun` by the monotonic clock."""
        self.failed(table, begun)
        self._past[table.name].took.append(time.monotonic() - begun)

    def failed(self, table: Table, begun: float) -> None:
        """Note one that came to nothing: what it took tells nothing."""
        self._past.setdefault(table.name, _Past(begun)).begun = begun

    def _levels(self, table: Table, scheduled: set[TableName]) -> int:
        upstreams = [u for u in self._registry.upstreams(table).values() if u.name in scheduled]
        return 1 + max((self._levels(u, scheduled) for u in upstreams), default=0)
