"""Takes the measures of `planner.relief`, and leaves a record of each with its reason."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from headrace.planner.modes import Measured
from headrace.planner.relief import BatchSize, Thinning, loose_tables
from headrace.spec.model import TableName

if TYPE_CHECKING:
    from headrace.catalog.decisions import Decisions
    from headrace.engine.flow import Flow

log = logging.getLogger(__name__)

STREAMS_SECONDS = 24 * 3600.0
"""How long a table streams that no schedule kept, until one is tried again."""


class Reliefs:
    """Of all flows, and of the tables on a schedule.

    Args:
        clock: seconds, always ascending.
    """

    def __init__(self, decisions: Decisions, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._decisions = decisions
        self._clock = clock
        self._sizes: dict[str, BatchSize] = {}
        self._resized: dict[str, set[TableName]] = {}
        self._thinnings: dict[str, Thinning] = {}
        self._left: dict[str, Mapping[TableName, Measured]] = {}
        self._streaming: dict[TableName, tuple[float, Measured]] = {}

    @property
    def measured(self) -> dict[TableName, Measured]:
        """The tables that have another mode than their freshness alone would give them."""
        found = {name: measured for name, (_, measured) in self._streaming.items()}
        for left in self._left.values():
            found |= left
        return found

    def look(self, flow: Flow, late: Mapping[TableName, float]) -> None:
        """Follow one flow.

        Args:
            late: its tables that miss their freshness, seconds.
        """
        self._resize(flow, late)
        thinning = self._thinnings.setdefault(flow.name, Thinning())
        if thinning.look(bool(late), self._clock()):
            self._left.pop(flow.name, None)
            if thinning.thinned:
                self._left[flow.name] = _leaving(flow, _tightest(late))

    def forget(self, flows: Collection[str]) -> None:
        """Of flows that there are no more, which are not among these."""
        for known in (self._sizes, self._resized, self._thinnings, self._left):
            for name in [n for n in known if n not in flows]:
                known.pop(name)

    def unkept(self, tables: Mapping[TableName, float], freshness: Mapping[TableName, timedelta]) -> None:
        """Let tables stream that no schedule keeps as fresh as they are to be.

        Args:
            tables: seconds that a refresh takes.
            freshness: of all tables that declare one.
        """
        now = self._clock()
        self._streaming = {
            n: (since, m) for n, (since, m) in self._streaming.items() if since > now - STREAMS_SECONDS
        }
        for name, took in tables.items():
            if name in freshness and name not in self._streaming:
                why = f"each of its scheduled refreshes takes {took:.0f} s or more"
                self._streaming[name] = now, Measured(freshness[name], True, why)

    def _resize(self, flow: Flow, late: Mapping[TableName, float]) -> None:
        size = self._sizes.setdefault(flow.name, BatchSize(flow.batch_size))
        was, (took, flow.took) = size.size, (flow.took, None)
        if late:
            if took is None or not size.took(*took):
                return
            why = f"{took[0]} messages took {took[1]:.1f} s, and there are more"
            tables = set(late)
            self._resized.setdefault(flow.name, set()).update(tables)
        elif size.on_time():
            tables, why = self._resized.pop(flow.name), "the flow keeps its freshness again"
        else:
            return
        flow.batch_size = size.size
        log.info("%s: %d messages a micro-batch: %s", flow.name, size.size, why)
        for table in tables:
            self._decisions.record(table, "BATCH_SIZE", str(was), str(size.size), why)


def _tightest(late: Mapping[TableName, float]) -> TableName:
    """Of the late tables with the tightest freshness the last one: it waits for all the others."""
    return min(reversed(list(late)), key=lambda name: late[name])


def _leaving(flow: Flow, late: TableName) -> dict[TableName, Measured]:
    """The tables that leave the flow of a late one."""
    own = {table.name for table in flow.tables}
    freshness = {
        t.name: t.freshness
        for t in flow.tables
        if t.freshness is not None and t.spec.source is None and t.spec.refresh_mode is None
    }
    readers: dict[TableName, set[TableName]] = {name: set() for name in own}
    for table in flow.tables:
        for upstream in own.intersection(u for u in table.spec.upstreams if isinstance(u, TableName)):
            readers[upstream].add(table.name)
    tightest = min(t.freshness for t in flow.tables if t.freshness is not None)
    found = loose_tables(
        {n: f.total_seconds() for n, f in freshness.items()}, tightest.total_seconds(), readers
    )
    why = f"`{late}`, in the same flow, misses its freshness"
    return {name: Measured(freshness[name], False, why) for name in found}
