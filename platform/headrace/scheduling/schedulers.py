"""The two workflow schedulers: the warehouse server itself, and Dagster."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING

from headrace.errors import Cancelled, TerminalError, UnknownName, did_you_mean
from headrace.progress import Progress
from headrace.results import WorkflowState, WorkflowStatus
from headrace.scheduling.precedence import most_urgent
from headrace.scheduling.turns import Turns
from headrace.scheduling.workflow import SchedulerName, WorkflowScheduler
from headrace.spec.model import TableName

if TYPE_CHECKING:
    from headrace.catalog.workflows import RefreshWorkflow, Workflows

log = logging.getLogger(__name__)

Refresh = Callable[[TableName, Progress], None]
Reads = Callable[[TableName], Collection[TableName]]
"""The tables that one reads directly."""

NOTICE_SECONDS = 15.0
"""From a turn that is due until Dagster has begun it: a tick of its sensor and the start of a run."""

OVERDUE_SECONDS = 120.0
"""How long a turn may wait for Dagster before `headrace status` says so."""


class _StoredWorkflows:
    """Keeps workflows in the catalog and runs their turns. Who begins a turn is for its subclasses to say.

    Args:
        stored: the catalog's workflows.
        refresh: refreshes one table.
        rests: whether nothing of a table shall begin now, besides suspended workflows.
    """

    name: SchedulerName

    def __init__(
        self, stored: Workflows, refresh: Refresh, rests: Callable[[TableName], bool], turns: Turns
    ) -> None:
        self._stored = stored
        self._refresh = refresh
        self._rests = rests
        self._turns = turns
        self._lock = Lock()
        self._workflows = {workflow.table: workflow for workflow in stored.all()}
        for table in self._workflows:
            turns.at_once(table, always=True)

    def create(self, workflow: RefreshWorkflow) -> None:
        self._put(workflow)

    def modify(self, workflow: RefreshWorkflow) -> None:
        self._workflow(workflow.table)
        self._put(workflow)

    def suspend(self, table: TableName) -> None:
        self._put(replace(self._workflow(table), suspended=True))

    def resume(self, table: TableName) -> None:
        was = self._workflow(table)
        self._put(replace(was, suspended=False))
        self._turns.at_once(table, always=was.suspended)

    def delete(self, table: TableName) -> None:
        with self._lock:
            self._stored.drop(table)
            self._workflows.pop(table, None)
        self._turns.forget(table)

    def workflows(self) -> list[RefreshWorkflow]:
        with self._lock:
            found = list(self._workflows.values())
        return sorted(found, key=lambda workflow: (workflow.levels, workflow.table))

    def status(self) -> list[WorkflowStatus]:
        return [self._status(workflow) for workflow in self.workflows()]

    def unmet(self) -> dict[TableName, float]:
        found = {workflow.table: self._turns.unmet(workflow) for workflow in self.workflows()}
        return {table: took for table, took in found.items() if took is not None}

    def warnings(self, table: TableName) -> list[str]:
        return []

    def tick(self) -> None:
        pass

    def run(self, table: TableName, turn: str | None, progress: Progress) -> str:
        if self._workflow(table).suspended:
            return "suspended"
        pace = self._turns.begin(table, turn)
        if isinstance(pace, str):
            return pace
        succeeded = again = False
        try:
            self._refresh(table, progress)
            succeeded = True
        except Exception as error:
            again = not isinstance(error, TerminalError | Cancelled)
            raise
        finally:
            self._turns.end(pace, succeeded=succeeded, again=again)
        return ""

    def _put(self, workflow: RefreshWorkflow) -> None:
        with self._lock:
            if self._workflows.get(workflow.table) != workflow:
                self._stored.put(workflow)
                self._workflows[workflow.table] = workflow
                self._turns.due_in(workflow)  # from now on it may be overdue

    def _workflow(self, table: TableName) -> RefreshWorkflow:
        with self._lock:
            found, known = self._workflows.get(table), [str(name) for name in self._workflows]
        if found is None:
            raise UnknownName(f"`{table}` has no refresh workflow; {did_you_mean(str(table), known)}")
        return found

    def _status(self, workflow: RefreshWorkflow) -> WorkflowStatus:
        turn, underway, took = self._turns.seen(workflow.table)
        wait = max(0.0, self._turns.due_in(workflow))
        state: WorkflowState = "WAITING" if wait else "DUE"
        if underway:
            state = "RUNNING"
        elif workflow.suspended or (not wait and self._rests(workflow.table)):
            state = "SUSPENDED"
        return WorkflowStatus(
            table=str(workflow.table),
            mode=str(workflow.mode),
            freshness=workflow.freshness,
            scheduler=self.name,
            state=state,
            due_in=wait,
            took=took,
            turn=turn,
        )


class WarehouseScheduler(_StoredWorkflows):
    """The warehouse server refreshes its tables itself, one at a time, the one with the earliest deadline.

    Args:
        reads: see `Reads`.
        others: as for every scheduler.
    """

    name: SchedulerName = "warehouse"

    def __init__(
        self,
        stored: Workflows,
        refresh: Refresh,
        rests: Callable[[TableName], bool],
        turns: Turns,
        reads: Reads,
    ) -> None:
        super().__init__(stored, refresh, rests, turns)
        self._reads = reads

    def tick(self) -> None:
        """Until nothing is due, or a table is for the second time: then there may be other work as well.

        What comes due meanwhile is considered after each refresh.
        """
        begun: set[TableName] = set()
        while (table := self._next()) is not None and table not in begun:
            begun.add(table)
            try:
                self.run(table, None, Progress())
            except Exception as error:  # it is in the table's state, and the others go on
                log.debug("%s: %s", table, error)

    def _next(self) -> TableName | None:
        due = {w.table: self._turns.deadline(w) for w in self.workflows() if self._status(w).state == "DUE"}
        return most_urgent(due, self._reads) if due else None


class DagsterScheduler(_StoredWorkflows):
    """Dagster's sensor asks for the turns that are due, and each of its runs does one of them."""

    name: SchedulerName = "dagster"

    def warnings(self, table: TableName) -> list[str]:
        with self._lock:
            workflow = self._workflows.get(table)
        if workflow is None or self._status(workflow).state != "DUE":
            return []
        overdue = -self._turns.due_in(workflow)
        if overdue < OVERDUE_SECONDS:
            return []
        return [
            f"its refresh has been due for {overdue:.0f} s, and Dagster has not begun it. Next: look at the "
            "sensor `refresh_workflows` and the run queue in Dagster"
        ]


def scheduler_of(
    name: SchedulerName,
    stored: Workflows,
    refresh: Refresh,
    rests: Callable[[TableName], bool],
    reads: Reads,
) -> WorkflowScheduler:
    """The scheduler that the setting `scheduler` names."""
    if name == "dagster":
        return DagsterScheduler(stored, refresh, rests, Turns(notice=NOTICE_SECONDS))
    return WarehouseScheduler(stored, refresh, rests, Turns(), reads)
