"""Which tables stream, each in which flow, and which are refreshed on a schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta

from headrace.engine.flow.flow import Flow
from headrace.engine.table.offline_bound import offline
from headrace.engine.table.table import Registry, Table, is_stg
from headrace.planner.policy.flows import FlowPlan, group
from headrace.planner.policy.modes import Measured, effective_freshness, refresh_modes
from headrace.spec import Project
from headrace.spec.calendar import in_force
from headrace.spec.model import RefreshMode, TableName


class Arrangement:
    """Follows what the tables declare. Not thread-safe; `flows` and `scheduled` stay the same lists.

    Args:
        project: what is declared. What its calendars say now counts; `registry` has been made by that.
        make: makes the flow of a plan.
    """

    def __init__(
        self, project: Project, registry: Registry, threshold: timedelta, make: Callable[[FlowPlan], Flow]
    ) -> None:
        self.project = project
        self._in_force = in_force(project, datetime.now(UTC))
        self._registry = registry
        self._threshold = threshold
        self._make = make
        self._measured: Mapping[TableName, Measured] = {}
        self.flows = [make(plan) for plan in self.plans()]
        self.scheduled = [t for t in registry if self._follows_schedule(t)]

    def plans(self) -> list[FlowPlan]:
        """The flows that there ought to be."""
        modes = {t.name: RefreshMode.CONTINUOUS for t in self._registry if self._streams(t)}
        return group(self._in_force, modes)

    def turned(self, measured: Mapping[TableName, Measured]) -> bool:
        """Whether a calendar, or what is measured, says something else now than when tables were declared."""
        calendars = in_force(self.project, datetime.now(UTC)).tables
        return calendars != self._in_force.tables or measured != self._measured

    def declare(self, project: Project, measured: Mapping[TableName, Measured]) -> list[Table]:
        """Take other declarations; the registry has exactly their tables.

        Args:
            measured: what measurements say of tables whose mode is not declared.
        Returns:
            The tables that have another mode now.
        """
        self.project, self._measured, moved = project, measured, []
        current = self._in_force = in_force(project, datetime.now(UTC))
        known = {id(table) for table in self._registry}
        self.scheduled[:] = [t for t in self.scheduled if id(t) in known]
        for name, (mode, reason) in refresh_modes(current, self._threshold, measured).items():
            table = self._registry[name]
            if table.mode is not mode:
                moved.append(table)
            table.spec = current.tables[name]
            table.mode, table.mode_reason = mode, reason
            table.freshness = effective_freshness(table.spec, current)[0]
        return moved

    def end(self, plans: Iterable[FlowPlan]) -> list[Flow]:
        """Take out the flows whose sources none of the plans has. The caller closes them."""
        sources = {plan.sources for plan in plans}
        ended = [flow for flow in self.flows if flow.sources not in sources]
        self.flows[:] = [flow for flow in self.flows if flow.sources in sources]
        return ended

    def begin(self, plan: FlowPlan) -> tuple[Flow, bool]:
        """The flow with the plan's sources, and whether it is a new one, which the caller starts."""
        known = next((flow for flow in self.flows if flow.sources == plan.sources), None)
        if known is not None:
            return known, False
        made = self._make(plan)
        self.flows.append(made)
        return made, True

    def unschedule(self) -> list[Table]:
        """Take out the scheduled tables that are to stream, or to be written by the batch alone.

        Returns:
            Those that are to stream.
        """
        streaming = [t for t in self.scheduled if self._streams(t)]
        self.scheduled[:] = [t for t in self.scheduled if self._follows_schedule(t)]
        return streaming

    def schedule(self) -> list[Table]:
        """Add the tables that are to be refreshed on a schedule from now on. Returns them."""
        new = [t for t in self._registry if self._follows_schedule(t) and t not in self.scheduled]
        self.scheduled += new
        return new

    @classmethod
    def _follows_schedule(cls, table: Table) -> bool:
        return not cls._streams(table) and not offline(table)

    @staticmethod
    def _streams(table: Table) -> bool:
        """A stg table always does: Kafka does not keep its events for ever."""
        return is_stg(table) or table.mode is RefreshMode.CONTINUOUS
