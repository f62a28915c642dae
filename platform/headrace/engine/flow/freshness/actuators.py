"""Takes the measures of `planner.policy.relief`, and leaves a record of each with its reason."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from headrace.engine.table.table import is_stg
from headrace.planner.policy.modes import Measured
from headrace.planner.policy.relief import Thinning, loose_tables
from headrace.spec.model import TableName

if TYPE_CHECKING:
    from headrace.catalog.decisions import Decisions
    from headrace.engine.flow.flow import Flow

log = logging.getLogger(__name__)

STREAMS_SECONDS = 24 * 3600.0
"""How long a table streams that no schedule kept, until one is tried again."""


@dataclass
class _FlowRelief:
    """Of one flow.

    Args:
        resized: the tables that were late when its micro-batches grew.
        left: those that have left it.
    """

    thinning: Thinning = field(default_factory=Thinning)
    resized: set[TableName] = field(default_factory=set)
    left: Mapping[TableName, Measured] = field(default_factory=dict)


class FreshnessActuators:
    """Of all flows, and of the tables on a schedule.

    Args:
        clock: seconds, always ascending.
    """

    def __init__(self, decisions: Decisions, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._decisions = decisions
        self._clock = clock
        self._flows: dict[str, _FlowRelief] = {}
        self._streaming: dict[TableName, tuple[float, Measured]] = {}

    @property
    def measured(self) -> dict[TableName, Measured]:
        """The tables that have another mode than their freshness alone would give them."""
        # Asked by other threads than those that look.
        found = {name: measured for name, (_, measured) in self._streaming.copy().items()}
        for relief in self._flows.copy().values():
            found |= relief.left
        return found

    def look(self, flow: Flow, late: Mapping[TableName, float]) -> None:
        """Follow one flow.

        Args:
            late: its tables that miss their freshness, seconds.
        """
        relief = self._flows.setdefault(flow.name, _FlowRelief())
        self._resize(flow, late, relief)
        if relief.thinning.look(bool(late), self._clock()):
            relief.left = _leaving(flow, _tightest(late)) if relief.thinning.thinned else {}

    def forget(self, flows: Collection[str]) -> None:
        """Of flows that there are no more, which are not among these."""
        for name in [n for n in self._flows if n not in flows]:
            self._flows.pop(name)

    def unmet(self, tables: Mapping[TableName, float], freshness: Mapping[TableName, timedelta]) -> None:
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

    def _resize(self, flow: Flow, late: Mapping[TableName, float], relief: _FlowRelief) -> None:
        size = flow.batch_size
        was, took = size.size, flow.newest_step()
        if late:
            if took is None or not size.took(*took):
                return
            why = f"{took[0]} messages took {took[1]:.1f} s, and there are more"
            tables = set(late)
            relief.resized |= tables
        elif size.on_time():
            tables, why = relief.resized, "the flow keeps its freshness again"
            relief.resized = set()
        else:
            return
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
        if t.freshness is not None and not is_stg(t) and t.spec.refresh_mode is None
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
