"""Refreshes of the tables that no flow advances, begun by the workflow scheduler or by a statement."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Sequence

from headrace.catalog import Catalog
from headrace.catalog.workflows import RefreshWorkflow
from headrace.engine.spark.meter import METER
from headrace.engine.table.offline_bound import lacking
from headrace.engine.table.table import Registry, Table
from headrace.errors import Cancelled, TerminalError
from headrace.progress import Progress
from headrace.results import RefreshResult
from headrace.scheduling.schedulers import scheduler_of
from headrace.scheduling.workflow import UNDECLARED_SECONDS, SchedulerName, agree, levels
from headrace.spec.model import RefreshMode, TableName

log = logging.getLogger(__name__)


class Refreshes:
    """Keeps one workflow for each table of `scheduled`, and does their refreshes.

    Args:
        scheduled: the tables, which the arrangement keeps.
        advance: brings a table to its upstreams' present versions.
        failed: notes why a table cannot go on.
        rests: whether nothing of a table shall begin now.
    """

    def __init__(
        self,
        name: SchedulerName,
        registry: Registry,
        catalog: Catalog,
        scheduled: Sequence[Table],
        *,
        advance: Callable[[Table], None],
        failed: Callable[[Table, Exception], None],
        rests: Callable[[TableName], bool],
    ) -> None:
        self._registry = registry
        self._catalog = catalog
        self._scheduled = scheduled
        self._advance = advance
        self._failed = failed
        self._rests = rests
        self._over_nothing: set[TableName] = set()
        self.scheduler = scheduler_of(name, catalog.workflows, self._refresh, rests, self._reads)
        self.agree()

    def agree(self) -> None:
        """Let the scheduler keep what the tables declare now."""
        above = {table.name: self._registry.upstreams(table) for table in list(self._scheduled)}
        of = levels(above)
        agree(self.scheduler, [self._workflow(self._registry[name], of[name]) for name in above])

    def tick(self) -> None:
        """Let the scheduler begin what is due.

        A refresh before the first rows of what a table reads was none: the first one comes with them.
        """
        for workflow in self.scheduler.workflows():
            if workflow.table in self._over_nothing and self._fed(workflow.table):
                self._over_nothing.discard(workflow.table)
                self.scheduler.delete(workflow.table)
                self.scheduler.create(workflow)
        self.scheduler.tick()

    def _reads(self, name: TableName) -> Collection[TableName]:
        known = name in self._registry.tables
        return self._registry.upstreams(self._registry[name]) if known else ()

    def _fed(self, name: TableName) -> bool:
        return any(u.store.version > 0 for u in self._registry.upstreams(self._registry[name]).values())

    def _workflow(self, table: Table, level: int) -> RefreshWorkflow:
        freshness = table.freshness.total_seconds() if table.freshness else UNDECLARED_SECONDS
        suspended = self._catalog.desired(table.name) == "SUSPENDED"
        return RefreshWorkflow(table.name, table.mode, freshness, level, suspended)

    def suspend(self, table: Table) -> None:
        """Begin nothing more of a table that has a workflow."""
        if self._keeps(table.name):
            self.scheduler.suspend(table.name)

    def resume(self, table: Table) -> None:
        """Let a table go on that has a workflow."""
        if self._keeps(table.name):
            self.scheduler.resume(table.name)

    def _keeps(self, name: TableName) -> bool:
        return name in {workflow.table for workflow in self.scheduler.workflows()}

    def now(self, table: Table, turn: str | None, progress: Progress) -> RefreshResult:
        """`REFRESH NEW`: what its schedule does, now.

        Args:
            turn: only if this turn is still to come.
        Raises:
            TerminalError: the table streams, or is suspended, or its refresh is under way.
        """
        name = table.name
        if not self._keeps(name):
            raise TerminalError(
                f"`{name}` streams: what is new comes to it by itself. Next: `headrace status` shows "
                f"its lag, `headrace refresh {name} --all` computes all of it again"
            )
        begun, before = time.monotonic(), table.store.version
        skipped = self.scheduler.run(name, turn, progress)
        if skipped and turn is None:
            instead = f"headrace resume {name}" if skipped == "suspended" else 'headrace sql "SHOW WORKFLOWS"'
            raise TerminalError(f"`{name}`: nothing was refreshed: {skipped}. Next: `{instead}`")
        commit = table.store.commit
        changed = commit.version > before
        kinds = (commit.kinds or {}) if changed else {}
        return RefreshResult(
            table=str(name),
            start="",
            end="",
            partitions=[p for p in commit.partitions or () if p is not None] if changed else [],
            rows=commit.rows,
            inserted=kinds.get("+I", 0),
            updated=kinds.get("+U", 0),
            deleted=kinds.get("-D", 0),
            version=commit.version,
            seconds=time.monotonic() - begun,
            skipped=skipped,
        )

    def _refresh(self, name: TableName, progress: Progress) -> None:
        table = self._registry[name]
        try:
            if (why := outdated(table)) is not None:
                raise TerminalError(why)
            fed = self._fed(name)
            with METER.of(table.name, "schedule"):
                self._advance(table)
        except Exception as error:
            if progress.cancelled:  # stopped work fails in many ways
                raise Cancelled(f"the refresh of `{name}` was cancelled") from error
            if not isinstance(error, TerminalError):
                log.exception("refresh of %s", name)
            self._failed(table, error)
            raise
        (self._over_nothing.discard if fed else self._over_nothing.add)(name)
        if not self._rests(name):
            self._catalog.observe(name, "RUNNING")


def of_another_text(table: Table) -> bool:
    """Whether a FULL table's rows are to be made by its new text first, for all of its history."""
    made = table.store.version > 0 and table.store.commit.template != table.template
    return made and table.mode is RefreshMode.FULL


def outdated(table: Table) -> str | None:
    """Why the table cannot go on: another text made its rows. A FULL one makes all of them anew by itself.
    Or it is to stream, and has only what the batch alone has written.
    """
    if (why := table.lacks or lacking(table)) is not None:
        return why
    same = table.store.commit.template == table.template
    if same or not table.store.version or table.mode is RefreshMode.FULL:
        return None
    return (
        f"the definition changed since version {table.store.version}. Next: `headrace apply` recomputes its "
        "history by the new text"
    )
