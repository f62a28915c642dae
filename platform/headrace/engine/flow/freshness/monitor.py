"""Watches whether streaming tables keep their freshness, and lets other work give way where one does not."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import TYPE_CHECKING

from headrace.engine.flow.freshness.actuators import FreshnessActuators
from headrace.planner.policy.control import FreshnessState
from headrace.spec.model import TableName

if TYPE_CHECKING:
    from headrace.catalog.decisions import Decisions
    from headrace.engine.flow.flow import Flow
    from headrace.engine.table.table import Table

log = logging.getLogger(__name__)

WINDOW_SECONDS = 60.0
SHARE = 0.9
GIVES_WAY = 4.0
"""How much longer a cascade rests between two backfills, and a table between two compactions, while one is
late."""


class Watch:
    """Of all flows. One thread looks; what it found may be read by any."""

    def __init__(self, decisions: Decisions) -> None:
        self._decisions = decisions
        self._kept: dict[TableName, FreshnessState] = {}
        self._said: dict[TableName, str] = {}
        self.actuators = FreshnessActuators(decisions)

    @property
    def giving_way(self) -> float:
        """How much longer other work rests now than it would otherwise."""
        return GIVES_WAY if self._said else 1.0

    def warnings(self, table: TableName) -> list[str]:
        """What `headrace status` says of a table that misses its freshness."""
        return [self._said[table]] if table in self._said else []

    def look(self, flows: Collection[Flow]) -> None:
        """Measure every table of the flows; one with a late table waits for no statement, and is relieved."""
        streaming = set()
        for flow in flows:
            for table in flow.tables:
                if table.name in flow.active and table.freshness is not None:
                    streaming.add(table.name)
                    self._look(table, table.freshness.total_seconds(), loading=bool(flow.loading))
        for name in [n for n in self._kept if n not in streaming]:
            self._kept.pop(name)
            self._said.pop(name, None)
        for flow in flows:
            late = {
                t.name: t.freshness.total_seconds()
                for t in flow.tables
                if t.name in self._said and t.freshness is not None
            }
            flow.hurry(bool(late))
            self.actuators.look(flow, late)
        self.actuators.forget({flow.name for flow in flows})

    def _look(self, table: Table, declared: float, *, loading: bool) -> None:
        """A first load says nothing of how fresh a table is kept."""
        measured = None if loading else table.run.measured(SHARE, WINDOW_SECONDS)
        kept = self._kept.setdefault(table.name, FreshnessState())
        if not kept.look(declared, measured):
            return
        seen = "nothing changed" if measured is None else f"p90 {measured:.1f} s"
        why = f"{seen} within the last minute, declared {declared:g} s"
        log.info("%s %s its freshness: %s", table.name, "misses" if kept.late else "keeps", why)
        if kept.late:
            self._said[table.name] = f"misses its freshness: {why}; other work gives way"
        else:
            self._said.pop(table.name, None)
        was, became = ("kept", "missed") if kept.late else ("missed", "kept")
        self._decisions.record(table.name, "MEASURED", was, became, why)
