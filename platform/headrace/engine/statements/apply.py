"""`APPLY`: the tables become what is declared now, beside the streams of all others.

A table whose rows another text has made rests while they are computed by the new one, then goes on. Where it
has other columns, another key or another partition it begins again, and so does whoever reads its changes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from headrace.catalog import Catalog
from headrace.engine.read.views import Views
from headrace.engine.supervisor.failures import text
from headrace.engine.supervisor.supervisor import Supervisor
from headrace.engine.table import immutable
from headrace.engine.table.offline_bound import offline
from headrace.engine.table.table import Registry, Table, is_stg
from headrace.errors import Cancelled, HeadraceError, TerminalError
from headrace.planner.policy.apply import ApplyStep, RunningTable, Shape, WantedTable, plan_apply
from headrace.planner.policy.changes import ChangeKind
from headrace.progress import Progress
from headrace.results import AppliedTable, ApplyResult, RefreshResult
from headrace.spec import Project
from headrace.spec.model import TableName, TableSpec
from headrace.storage.location import remove_tree
from headrace.store.creation import extend
from headrace.store.delta.files import size
from headrace.store.record.commits import latest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)


def plan(
    registry: Registry, wanted: Registry, deployed: Mapping[TableName, TableSpec], files: Project
) -> tuple[ApplyStep, ...]:
    """What leads from the tables that run to the wanted ones.

    Args:
        registry: the tables that run; `wanted`: those of the files, not yet open.
        deployed: the definitions that were applied last.
        files: the declarations as they stand in files.
    """
    running = {name: _running(table) for name, table in registry.tables.items()}
    read = {t.source.table.source for t in registry if is_stg(t) and t.store.version}
    declared = [_wanted(table, new=table.name not in running, read=read) for table in wanted]
    return plan_apply(running, declared, deployed, files)


def _running(table: Table) -> RunningTable:
    store = table.store
    return RunningTable(
        spec=table.spec,
        template=table.template,
        made_by=store.commit.template if store.version else table.template,
        shape=_shape(table),
        readable=store.fits,
        has_rows=bool(store.version),
        complete_through=store.commit.complete_through,
        columns=table.source.digest if is_stg(table) else "",
        lacks=table.lacks is not None,
    )


def _wanted(table: Table, *, new: bool, read: Set[str]) -> WantedTable:
    """
    Args:
        read: sources that tables have rows of.
    """
    return WantedTable(
        name=table.name,
        template=table.template,
        shape=_shape(table),
        offline=offline(table),
        left_behind=new and latest(table.store.changelog.path) is not None,
        joins=new and is_stg(table) and table.source.table.source in read,
        columns=table.source.digest if is_stg(table) else "",
        lacks=table.lacks is not None,
    )


def _shape(table: Table) -> Shape:
    schema = table.store.schema
    return schema.stored, schema.key, schema.partition


def _opened(table: Table, step: ApplyStep, spark: SparkSession) -> Table:
    immutable.create(table)
    if step.extended:
        extend(spark, table.store)
    table.store.open()
    table.reshaped = step.reshaped or step.joins  # its first version is all of its rows
    return table


def _taken(table: Table, wanted: Table) -> Table:
    """A table that stays, with what depends on other tables and on its source."""
    table.plan, table.lacks = wanted.plan, wanted.lacks
    if is_stg(table) and is_stg(wanted):
        table.behavior = wanted.behavior
        if table.source.digest != wanted.source.digest:  # also of one that halts: to know when it is whole
            table.source = wanted.source
            table.run.forget_plans()
    return table


@dataclass(frozen=True)
class Apply:
    """
    Args:
        refresh: computes a table's rows anew by its text.
        resume: lets a table go on.
        purge: whether the files of tables that go are deleted.
    """

    spark: SparkSession
    registry: Registry
    catalog: Catalog
    supervisor: Supervisor
    views: Views
    refresh: Callable[[Table, Progress], RefreshResult]
    resume: Callable[[Table], None]
    purge: bool = False

    def run(
        self,
        todo: Sequence[ApplyStep],
        wanted: Registry,
        project: Project,
        *,
        begin: Callable[[], None],
        prepare: Callable[[Sequence[ApplyStep], Registry, Progress], None] | None = None,
        dry_run: bool,
        progress: Progress,
    ) -> ApplyResult:
        """Do the steps, or only say what they are.

        Args:
            project: what is declared, as statements have altered it.
            prepare: called before anything changes, with the steps and the wanted tables.
            begin: called before the first step, when all is known to be right.
        """
        begun = time.monotonic()
        applied = [self._weighed(step) for step in todo]
        for step in todo:
            self._check(step)
        if not dry_run:
            if prepare is not None:
                prepare(todo, wanted, progress)
            begin()
        halted = {t.name for t in self.registry if t.lacks is not None}
        halts = {t.name for t in wanted if t.lacks is not None}
        if (todo or halted != halts) and not dry_run:
            self._swap(todo, wanted, project)
            failed: dict[TableName, Exception] = {}
            try:
                for number, (step, result) in enumerate(zip(todo, applied, strict=True)):
                    progress.report(str(step), number, len(todo))
                    try:
                        self._refuse_after(step, failed)
                        result.refreshed = self._renew(step, progress)
                    except Cancelled:
                        raise
                    except Exception as error:  # the others do not wait for it
                        log.warning("%s is not applied: %s", step.change.table, error)
                        failed[step.change.table] = error
            finally:
                self._give_up(todo, failed)
            if failed:
                raise _of_all(failed)
            self._relieve(halted - halts - {step.change.table for step in todo})
        seconds = time.monotonic() - begun
        said = [t.lacks for t in wanted if t.lacks is not None]
        return ApplyResult(dry_run=dry_run, halts=said, tables=applied, seconds=seconds)

    def _check(self, step: ApplyStep) -> None:
        """Raises TerminalError where immutable partitions would be lost."""
        old = self.registry.tables.get(step.change.table)
        bound = old.store.commit.immutable_before if old is not None else ""
        if old is not None and bound and step.reshaped:
            raise TerminalError(
                f"`{old.name}` would begin again, with other columns, and its partitions before '{bound}' "
                f'are immutable. Next: `headrace sql "ALTER MATERIALIZED TABLE {old.name} RESET IMMUTABLE"`, '
                "which computes them by the present text, then `headrace apply`"
            )

    def _weighed(self, step: ApplyStep) -> AppliedTable:
        change = step.change
        old = self.registry.tables.get(change.table)
        partitions, bytes_ = size(old.store.snapshot.path) if old is not None else (0, 0)
        return AppliedTable(
            table=str(change.table),
            change=change.kind.value,
            what=list(change.what),
            begins_again=step.reshaped,
            downstream=[str(t) for t in change.downstream],
            partitions=partitions,
            bytes=bytes_,
        )

    def _swap(self, todo: Sequence[ApplyStep], wanted: Registry, project: Project) -> None:
        """The new tables take the old ones' places, between two micro-batches. Renewed ones rest."""
        kinds = {step.change.table: step for step in todo}
        renewed = {name for name, step in kinds.items() if step.renews}
        with self.supervisor.declaring:
            gone = self._replace(kinds, renewed, wanted)
            self.supervisor.declare(project)
        if self.purge:
            for step in todo:
                if step.change.kind is ChangeKind.REMOVED:
                    remove_tree(gone[step.change.table].store.root)

    def _replace(
        self, kinds: Mapping[TableName, ApplyStep], renewed: set[TableName], wanted: Registry
    ) -> dict[TableName, Table]:
        """Exchange the tables between two micro-batches. Returns those of before."""
        with self.supervisor.arranging:
            for name, step in kinds.items():
                for flow in self.supervisor.flows:
                    if step.renews or step.change.kind is ChangeKind.REMOVED:
                        flow.leave(name)
                if step.change.kind in (ChangeKind.REMOVED, ChangeKind.LOGIC):
                    self.registry[name].store.close()
            # Noted before it is done: a server that is killed in between goes on from here.
            for name, step in kinds.items():
                if step.change.kind is ChangeKind.REMOVED:
                    self.catalog.drop(name)
                    self.views.drop(name)
                else:
                    self.catalog.register(wanted[name].spec, wanted[name].mode, wanted[name].mode_reason)
            for table in (t for t in wanted if t.lacks is not None):
                for flow in self.supervisor.flows:
                    flow.leave(table.name)
                self.catalog.observe(table.name, "FAILED", table.lacks)
            tables = {}
            for table in wanted:
                own = kinds.get(table.name)
                if own is not None and own.change.kind in (ChangeKind.ADDED, ChangeKind.LOGIC):
                    tables[table.name] = _opened(table, own, self.spark)
                else:
                    tables[table.name] = _taken(self.registry[table.name], table)
            gone, self.registry.tables = self.registry.tables, tables
            self.supervisor.admission.paused.update(renewed)
            return gone

    def _renew(self, step: ApplyStep, progress: Progress) -> RefreshResult | None:
        name = step.change.table
        if not step.renews:
            return None
        table = self.registry[name]
        if step.change.kind is ChangeKind.LOGIC and not table.reshaped:
            bound = immutable.start_label(table.spec, table.store.commit, datetime.now(UTC))
            immutable.protect(table, bound, run_id="apply")
        result = self.refresh(table, progress)
        self.supervisor.admission.paused.discard(name)
        if self.catalog.desired(name) == "RUNNING":
            self.resume(table)
        self.views.renew(table)
        return result

    def _relieve(self, names: Set[TableName]) -> None:
        """Let tables go on whose columns are there again."""
        for name in names & self.registry.tables.keys():
            if self.catalog.desired(name) == "RUNNING":
                try:
                    self.resume(self.registry[name])
                except HeadraceError as error:
                    log.warning("%s does not go on: %s", name, error)

    def _refuse_after(self, step: ApplyStep, failed: Mapping[TableName, Exception]) -> None:
        """Raises TerminalError where the table is computed from one that could not be applied."""
        if not step.renews:
            return
        table = self.registry[step.change.table]
        if waits := [str(name) for name in self.registry.upstreams(table) if name in failed]:
            raise _Waits(f"`{table.name}` reads {', '.join(waits)}, which is not applied")

    def _give_up(self, todo: Sequence[ApplyStep], failed: Mapping[TableName, Exception]) -> None:
        """Say of every table that was not renewed that it was not."""
        for name in {step.change.table for step in todo} & self.supervisor.admission.paused:
            why = f": {text(failed[name])}" if name in failed else ""
            self.catalog.observe(name, "FAILED", f"its new text is not applied{why}. Next: `headrace apply`")
            self.supervisor.admission.paused.discard(name)


class _Waits(TerminalError):
    """The table reads one that could not be applied."""


def _of_all(failed: Mapping[TableName, Exception]) -> Exception:
    """The error itself where it is that of a single table; of several, one that names all."""
    causes = {name: error for name, error in failed.items() if not isinstance(error, _Waits)}
    if len(causes) == 1:
        return next(iter(causes.values()))
    said = "\n".join(f"{name}: {text(error)}" for name, error in causes.items())
    return TerminalError(
        f"{len(causes)} tables could not be applied, others are. Next: `headrace apply`\n{said}"
    )
