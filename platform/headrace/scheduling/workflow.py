"""The workflow scheduler's interface: one refresh workflow for each table that no flow advances."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Literal, Protocol

from headrace.progress import Progress
from headrace.results import WorkflowStatus
from headrace.spec.model import TableName

if TYPE_CHECKING:
    from headrace.catalog.workflows import RefreshWorkflow

SchedulerName = Literal["warehouse", "dagster"]

UNDECLARED_SECONDS = 60.0
"""Freshness of a table that declares none and that nothing with one reads."""


class WorkflowScheduler(Protocol):
    """Begins each workflow's refreshes within its freshness. Thread-safe.

    What it was told outlives the process. Every method may be called again with the same: that changes
    nothing. `suspend`, `resume` and `modify` raise UnknownName where the table has no workflow.
    """

    def create(self, workflow: RefreshWorkflow) -> None:
        """Take the workflow on; it is due at once."""

    def modify(self, workflow: RefreshWorkflow) -> None:
        """Let the table's workflow be this one. What its refreshes took stays known."""

    def suspend(self, table: TableName) -> None:
        """Begin nothing more of it; what is under way goes on."""

    def resume(self, table: TableName) -> None:
        """Go on; where it was suspended or had failed it is due at once."""

    def delete(self, table: TableName) -> None:
        """Forget it. Nothing happens where there is none."""

    def workflows(self) -> list[RefreshWorkflow]:
        """What it keeps, upstreams before the tables that read them."""

    def status(self) -> list[WorkflowStatus]:
        """Where each workflow is, in the order of `workflows`."""

    def unmet(self) -> Mapping[TableName, float]:
        """Seconds that a refresh takes of the tables that no schedule can keep as fresh as they are to be."""

    def warnings(self, table: TableName) -> list[str]:
        """What `headrace status` says of a table that is not refreshed as it should be."""

    def tick(self) -> None:
        """Called twice a second: begin what is due, where it is for this scheduler to begin it."""

    def run(self, table: TableName, turn: str | None, progress: Progress) -> str:
        """One refresh now, which counts as the workflow's.

        Args:
            turn: only if this turn is still to come, so that nobody does it twice.
        Returns:
            Why nothing was done, empty where it was.
        Raises:
            UnknownName: the table has no workflow.
            Exception: what the refresh raises.
        """


def agree(scheduler: WorkflowScheduler, wanted: Collection[RefreshWorkflow]) -> None:
    """Create, modify and delete until the scheduler keeps exactly these."""
    known = {workflow.table: workflow for workflow in scheduler.workflows()}
    for workflow in wanted:
        was = known.pop(workflow.table, None)
        if was is None:
            scheduler.create(workflow)
        elif was != workflow:
            scheduler.modify(workflow)
    for table in known:
        scheduler.delete(table)


def levels(scheduled: Mapping[TableName, Collection[TableName]]) -> dict[TableName, int]:
    """`RefreshWorkflow.levels` of these tables, each with the tables that it reads."""
    found: dict[TableName, int] = {}

    def level(name: TableName) -> int:
        if name not in found:
            found[name] = 1 + max((level(u) for u in scheduled[name] if u in scheduled), default=0)
        return found[name]

    for name in scheduled:
        level(name)
    return found
