"""What each statement does: one handler, its answer as plain JSON or as Arrow rows.

A further statement is a dataclass in `statements`, a rule in `parser`, and here one function with its line in
`HANDLERS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol

from pydantic import JsonValue

from headrace.encoding import encode
from headrace.gateway import statements as s
from headrace.gateway.rows import Batches
from headrace.progress import Progress
from headrace.results import (
    AlterResult,
    ApplyResult,
    CascadeResult,
    ChangePage,
    CheckEvaluation,
    ConstraintResult,
    DeadLettersResult,
    EraseResult,
    Explanation,
    ImmutableResult,
    JvmStatus,
    LoadResult,
    ParityResult,
    PublishResult,
    RefreshResult,
    ResyncResult,
    RewindResult,
    SourceState,
    Start,
    TableAccount,
    TableCost,
    TableStatus,
    WorkflowStatus,
)
from headrace.spec.alteration import Property
from headrace.spec.partitions.label_range import LabelRange

if TYPE_CHECKING:
    from datetime import datetime

    import pyarrow as pa

    from headrace.spec import Project
    from headrace.spec.edit import Edit

Lane = Literal["control", "reads", "jobs"]
"""Which workers run a statement: a SELECT never waits for a backfill, a SUSPEND for neither."""


class WarehouseApi(Protocol):
    """What the gateway needs of `headrace.engine.warehouse.warehouse.Warehouse`."""

    def status(self) -> list[TableStatus]: ...
    def jvm(self) -> JvmStatus | None: ...
    def explain(self, table: str, *, history: bool = False) -> Explanation: ...
    def select(self, sql: str) -> pa.Table | Batches: ...
    def refresh(self, table: str, labels: LabelRange | None, *, progress: Progress) -> RefreshResult: ...
    def refresh_new(self, table: str, turn: str | None, *, progress: Progress) -> RefreshResult: ...
    def workflows(self) -> list[WorkflowStatus]: ...
    def costs(self, hours: int) -> list[TableCost]: ...
    def spent(self) -> list[TableCost]: ...
    def sources(self) -> list[SourceState]: ...
    def cascade(
        self, table: str, labels: LabelRange | None, *, dry_run: bool = False, progress: Progress
    ) -> CascadeResult: ...
    def verify(
        self,
        tables: list[str] | None,
        labels: LabelRange | None = None,
        *,
        source: bool = True,
        repair: bool = False,
        progress: Progress,
    ) -> list[ParityResult]: ...
    def check(
        self, table: str, labels: LabelRange | None = None, *, progress: Progress
    ) -> list[ConstraintResult]: ...
    def suspend(self, table: str) -> None: ...
    def alter(self, table: str, what: Property, value: str | None, /) -> AlterResult: ...
    def immutable(self, table: str, before: str | None, *, progress: Progress) -> ImmutableResult: ...
    def resume(self, table: str) -> None: ...
    def apply(
        self,
        edit: Callable[[Project], Edit] | None = None,
        /,
        *,
        blue_green: bool = False,
        dry_run: bool = False,
        progress: Progress,
    ) -> ApplyResult: ...
    def rollback(self, table: str, *, progress: Progress) -> ApplyResult: ...
    def rewind(
        self, table: str, to: int | datetime, /, *, cascade: bool, dry_run: bool, progress: Progress
    ) -> RewindResult: ...
    def resync(self, table: str, *, where: str = "", dry_run: bool, progress: Progress) -> ResyncResult: ...
    def erase(
        self,
        table: str,
        key: tuple[tuple[str | None, str], ...],
        /,
        *,
        history: bool,
        dry_run: bool,
        progress: Progress,
    ) -> EraseResult: ...
    def describe(self, table: str) -> dict[str, Any]: ...
    def evaluations(self, table: str | None = None) -> list[CheckEvaluation]: ...
    def partitions(self, table: str) -> list[dict[str, Any]]: ...
    def show(self) -> list[dict[str, Any]]: ...
    def load(self, source: str, *, progress: Progress) -> LoadResult: ...
    def changes(self, table: str, start: Start, reader: str | None, /) -> ChangePage: ...
    def publish(self, table: str, *, dry_run: bool, progress: Progress) -> PublishResult: ...
    def readers(self, table: str | None = None) -> list[dict[str, Any]]: ...
    def drop_reader(self, reader: str, table: str, /) -> None: ...
    def dead_letters(self, table: str | None = None, *, settled: bool = False) -> list[dict[str, Any]]: ...
    def accounting(self, table: str) -> TableAccount: ...
    def quarantine(self, table: str, *, progress: Progress) -> pa.Table: ...
    def replay_dead_letters(
        self, table: str, at: tuple[tuple[int, int], ...], /, *, progress: Progress
    ) -> DeadLettersResult: ...
    def drop_dead_letters(
        self, table: str, at: tuple[tuple[int, int], ...], reason: str, /
    ) -> DeadLettersResult: ...


@dataclass(frozen=True)
class Outcome:
    """A statement's answer: JSON, or rows."""

    result: JsonValue = None
    rows: pa.Table | Batches | None = None


def _select(warehouse: WarehouseApi, statement: s.Select, progress: Progress) -> Outcome:
    return Outcome(rows=warehouse.select(statement.sql))


def _changes(warehouse: WarehouseApi, statement: s.Changes, progress: Progress) -> Outcome:
    page = warehouse.changes(statement.table, statement.start, statement.reader)
    return Outcome({"after": page.after, "through": page.through, "head": page.head}, page.rows)


def _publish(warehouse: WarehouseApi, statement: s.Publish, progress: Progress) -> Any:
    return warehouse.publish(statement.table, dry_run=statement.dry_run, progress=progress)


def _show_readers(warehouse: WarehouseApi, statement: s.ShowReaders, progress: Progress) -> Any:
    return warehouse.readers(statement.table)


def _drop_reader(warehouse: WarehouseApi, statement: s.DropReader, progress: Progress) -> Any:
    warehouse.drop_reader(statement.reader, statement.table)
    return {"table": statement.table, "reader": statement.reader}


def _show_dead_letters(warehouse: WarehouseApi, statement: s.ShowDeadLetters, progress: Progress) -> Any:
    return warehouse.dead_letters(statement.table, settled=statement.settled)


def _show_quarantine(warehouse: WarehouseApi, statement: s.ShowQuarantine, progress: Progress) -> Outcome:
    return Outcome(rows=warehouse.quarantine(statement.table, progress=progress))


def _show_accounting(warehouse: WarehouseApi, statement: s.ShowAccounting, progress: Progress) -> Any:
    return warehouse.accounting(statement.table)


def _replay(warehouse: WarehouseApi, statement: s.ReplayDeadLetters, progress: Progress) -> Any:
    return warehouse.replay_dead_letters(statement.table, statement.at, progress=progress)


def _drop_letters(warehouse: WarehouseApi, statement: s.DropDeadLetters, progress: Progress) -> Any:
    return warehouse.drop_dead_letters(statement.table, statement.at, statement.reason)


def _show_checks(warehouse: WarehouseApi, statement: s.ShowChecks, progress: Progress) -> Any:
    return warehouse.evaluations(statement.table)


def _show_tables(warehouse: WarehouseApi, statement: s.ShowTables, progress: Progress) -> Any:
    return warehouse.show()


def _show_partitions(warehouse: WarehouseApi, statement: s.ShowPartitions, progress: Progress) -> Any:
    return warehouse.partitions(statement.table)


def _show_workflows(warehouse: WarehouseApi, statement: s.ShowWorkflows, progress: Progress) -> Any:
    return warehouse.workflows()


def _show_costs(warehouse: WarehouseApi, statement: s.ShowCosts, progress: Progress) -> Any:
    return warehouse.costs(statement.hours)


def _describe(warehouse: WarehouseApi, statement: s.Describe, progress: Progress) -> Any:
    return warehouse.describe(statement.table)


def _explain(warehouse: WarehouseApi, statement: s.Explain, progress: Progress) -> Any:
    return warehouse.explain(statement.table, history=statement.history)


def _suspend(warehouse: WarehouseApi, statement: s.Suspend, progress: Progress) -> Any:
    warehouse.suspend(statement.table)
    return {"table": statement.table, "desired": "SUSPENDED"}


def _resume(warehouse: WarehouseApi, statement: s.Resume, progress: Progress) -> Any:
    warehouse.resume(statement.table)
    return {"table": statement.table, "desired": "RUNNING"}


def _alter(warehouse: WarehouseApi, statement: s.Alter, progress: Progress) -> Any:
    return warehouse.alter(statement.table, statement.what, statement.value)


def _set_immutable(warehouse: WarehouseApi, statement: s.SetImmutable, progress: Progress) -> Any:
    return warehouse.immutable(statement.table, statement.before, progress=progress)


def _apply(warehouse: WarehouseApi, statement: s.Apply, progress: Progress) -> Any:
    return warehouse.apply(blue_green=statement.blue_green, dry_run=statement.dry_run, progress=progress)


def _create(warehouse: WarehouseApi, statement: s.Create, progress: Progress) -> Any:
    from headrace.spec import edit

    made = partial(edit.create, text=statement.text, or_alter=statement.or_alter)
    return warehouse.apply(made, progress=progress)


def _alter_query(warehouse: WarehouseApi, statement: s.AlterQuery, progress: Progress) -> Any:
    from headrace.spec import edit

    return warehouse.apply(
        lambda project: edit.with_query(project, project.table(statement.table).name, statement.query),
        progress=progress,
    )


def _drop(warehouse: WarehouseApi, statement: s.Drop, progress: Progress) -> Any:
    from headrace.spec import edit

    if (table := statement.table) is None:
        return ApplyResult(dry_run=False, tables=[])
    return warehouse.apply(lambda project: edit.drop(project, project.table(table).name), progress=progress)


def _rollback(warehouse: WarehouseApi, statement: s.Rollback, progress: Progress) -> Any:
    return warehouse.rollback(statement.table, progress=progress)


def _rewind(warehouse: WarehouseApi, statement: s.Rewind, progress: Progress) -> Any:
    return warehouse.rewind(
        statement.table,
        statement.to,
        cascade=statement.cascade,
        dry_run=statement.dry_run,
        progress=progress,
    )


def _resync(warehouse: WarehouseApi, statement: s.Resync, progress: Progress) -> Any:
    return warehouse.resync(
        statement.table, where=statement.where, dry_run=statement.dry_run, progress=progress
    )


def _erase(warehouse: WarehouseApi, statement: s.Erase, progress: Progress) -> Any:
    return warehouse.erase(
        statement.table,
        statement.key,
        history=statement.history,
        dry_run=statement.dry_run,
        progress=progress,
    )


def _load(warehouse: WarehouseApi, statement: s.LoadSource, progress: Progress) -> Any:
    return warehouse.load(statement.source, progress=progress)


def _refresh(warehouse: WarehouseApi, statement: s.Refresh, progress: Progress) -> Any:
    if statement.cascade:
        return warehouse.cascade(
            statement.table, statement.labels, dry_run=statement.dry_run, progress=progress
        )
    return warehouse.refresh(statement.table, statement.labels, progress=progress)


def _refresh_new(warehouse: WarehouseApi, statement: s.RefreshNew, progress: Progress) -> Any:
    return warehouse.refresh_new(statement.table, statement.turn, progress=progress)


def _verify(warehouse: WarehouseApi, statement: s.Verify, progress: Progress) -> Any:
    return warehouse.verify(
        list(statement.tables) or None,
        statement.labels,
        source=statement.source,
        repair=statement.repair,
        progress=progress,
    )


def _check(warehouse: WarehouseApi, statement: s.Check, progress: Progress) -> Any:
    return warehouse.check(statement.table, statement.labels, progress=progress)


@dataclass(frozen=True)
class Handler:
    """
    Args:
        lane: the workers that run the statement.
        run: what it does: an `Outcome`, or what becomes one as JSON.
    """

    lane: Lane
    run: Callable[[WarehouseApi, Any, Progress], Any]


HANDLERS: Mapping[type[Any], Handler] = {
    s.Select: Handler("reads", _select),
    s.Changes: Handler("reads", _changes),
    s.ShowDeadLetters: Handler("reads", _show_dead_letters),
    s.ShowTables: Handler("control", _show_tables),
    s.ShowPartitions: Handler("control", _show_partitions),
    s.ShowChecks: Handler("control", _show_checks),
    s.ShowReaders: Handler("control", _show_readers),
    s.ShowWorkflows: Handler("control", _show_workflows),
    s.ShowCosts: Handler("control", _show_costs),
    s.DropReader: Handler("control", _drop_reader),
    s.Describe: Handler("control", _describe),
    s.Explain: Handler("control", _explain),
    s.Suspend: Handler("control", _suspend),
    s.Resume: Handler("control", _resume),
    s.Alter: Handler("control", _alter),
    s.SetImmutable: Handler("jobs", _set_immutable),
    s.Create: Handler("jobs", _create),
    s.AlterQuery: Handler("jobs", _alter_query),
    s.Rollback: Handler("jobs", _rollback),
    s.Drop: Handler("jobs", _drop),
    s.Apply: Handler("jobs", _apply),
    s.Rewind: Handler("jobs", _rewind),
    s.Resync: Handler("jobs", _resync),
    s.Erase: Handler("jobs", _erase),
    s.ShowAccounting: Handler("reads", _show_accounting),
    s.ShowQuarantine: Handler("jobs", _show_quarantine),
    s.ReplayDeadLetters: Handler("jobs", _replay),
    s.DropDeadLetters: Handler("jobs", _drop_letters),
    s.LoadSource: Handler("jobs", _load),
    s.Refresh: Handler("jobs", _refresh),
    s.RefreshNew: Handler("jobs", _refresh_new),
    s.Publish: Handler("jobs", _publish),
    s.Verify: Handler("jobs", _verify),
    s.Check: Handler("jobs", _check),
}


_READING = (
    *(s.Select, s.ShowTables, s.ShowPartitions, s.ShowChecks, s.ShowReaders, s.ShowWorkflows, s.ShowCosts),
    *(s.ShowDeadLetters, s.ShowAccounting, s.Describe, s.Explain),
)


def only_reads(statement: s.ParsedStatement) -> bool:
    """Whether the statement changes nothing, here or in a source, and takes no worker from jobs."""
    if isinstance(statement, s.Changes):
        return statement.reader is None
    return isinstance(statement, _READING)


def lane(statement: s.ParsedStatement) -> Lane:
    """The workers that run the statement."""
    return HANDLERS[type(statement)].lane


def execute(warehouse: WarehouseApi, statement: s.ParsedStatement, progress: Progress) -> Outcome:
    """Run the statement to its end. Raises what the warehouse raises."""
    answer = HANDLERS[type(statement)].run(warehouse, statement, progress)
    return answer if isinstance(answer, Outcome) else Outcome(encode(answer))


def check_labels(statement: s.ParsedStatement, project: Project) -> None:
    """Refuse partition labels that the tables' formats do not allow, before anything runs."""
    labels: LabelRange | None = getattr(statement, "labels", None)
    if labels is None:
        return
    from headrace.spec.partitions.labels import label_range

    tables: Sequence[str]
    match statement:
        case s.Verify(tables=()):
            tables = [str(spec.name) for spec in project.tables.values() if spec.partition_format]
        case s.Verify(tables=tables):
            pass
        case s.Refresh(table=table) | s.Check(table=table):
            tables = (table,)
        case _:
            return
    for name in tables:
        label_range(project.table(name), labels)
