"""What each statement does: one call of the warehouse, its answer as plain JSON or as Arrow rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol

from pydantic import JsonValue

from headrace.gateway import statements as s
from headrace.gateway.encoding import encode
from headrace.progress import Progress
from headrace.results import (
    AlterResult,
    ApplyResult,
    CascadeResult,
    ChangePage,
    ConstraintResult,
    Explanation,
    ImmutableResult,
    LoadResult,
    ParityResult,
    RefreshResult,
    RewindResult,
    Start,
    TableStatus,
    WorkflowStatus,
)
from headrace.spec.alteration import Property

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
    def explain(self, table: str, *, history: bool = False) -> Explanation: ...
    def select(self, sql: str, *, limit: int | None = None) -> pa.Table: ...
    def refresh(
        self, table: str, start: str | None, end: str | None, *, progress: Progress
    ) -> RefreshResult: ...
    def refresh_new(self, table: str, turn: str | None, *, progress: Progress) -> RefreshResult: ...
    def workflows(self) -> list[WorkflowStatus]: ...
    def cascade(
        self, table: str, start: str | None, end: str | None, *, dry_run: bool = False, progress: Progress
    ) -> CascadeResult: ...
    def verify(
        self,
        tables: list[str] | None,
        *,
        start: str | None = None,
        end: str | None = None,
        source: bool = True,
        repair: bool = False,
        progress: Progress,
    ) -> list[ParityResult]: ...
    def check(
        self, table: str, *, start: str | None = None, end: str | None = None, progress: Progress
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
    def describe(self, table: str) -> dict[str, Any]: ...
    def partitions(self, table: str) -> list[dict[str, Any]]: ...
    def show(self) -> list[dict[str, Any]]: ...
    def load(self, source: str, *, progress: Progress) -> LoadResult: ...
    def changes(self, table: str, start: Start, reader: str | None, /) -> ChangePage: ...
    def readers(self, table: str | None = None) -> list[dict[str, Any]]: ...
    def drop_reader(self, reader: str, table: str, /) -> None: ...
    def dead_letters(self, table: str | None = None) -> list[dict[str, Any]]: ...


@dataclass(frozen=True)
class Outcome:
    """A statement's answer: JSON, or rows."""

    result: JsonValue = None
    rows: pa.Table | None = None


def lane(statement: s.ParsedStatement) -> Lane:
    """The workers that run the statement."""
    match statement:
        case s.Select() | s.Changes() | s.ShowDeadLetters():
            return "reads"
        case s.Refresh() | s.RefreshNew() | s.Verify() | s.Check() | s.LoadSource():
            return "jobs"
        case s.Create() | s.AlterQuery() | s.Rollback() | s.Drop() | s.Apply():
            return "jobs"
        case s.Rewind() | s.SetImmutable():
            return "jobs"
        case _:
            return "control"


def check_labels(statement: s.ParsedStatement, project: Project) -> None:
    """Refuse partition labels that the tables' formats do not allow, before anything runs."""
    labels: s.Labels | None = getattr(statement, "labels", None)
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
        label_range(project.table(name), labels.start, labels.end)


def execute(warehouse: WarehouseApi, statement: s.ParsedStatement, progress: Progress) -> Outcome:
    """Run the statement to its end. Raises what the warehouse raises."""
    match statement:
        case s.Select(sql=sql):
            return Outcome(rows=warehouse.select(sql))
        case s.Changes(table=table, start=begin, reader=reader):
            page = warehouse.changes(table, begin, reader)
            return Outcome({"after": page.after, "through": page.through, "head": page.head}, page.rows)
        case s.ShowReaders(table=readers_of):
            return Outcome(encode(warehouse.readers(readers_of)))
        case s.DropReader(reader=name, table=table):
            warehouse.drop_reader(name, table)
            return Outcome({"table": table, "reader": name})
        case s.ShowDeadLetters(table=letters_of):
            return Outcome(encode(warehouse.dead_letters(letters_of)))
        case s.ShowTables():
            return Outcome(encode(warehouse.show()))
        case s.ShowPartitions(table=table):
            return Outcome(encode(warehouse.partitions(table)))
        case s.Describe(table=table):
            return Outcome(encode(warehouse.describe(table)))
        case s.Explain(table=table, history=history):
            return Outcome(encode(warehouse.explain(table, history=history)))
        case s.Suspend(table=table):
            warehouse.suspend(table)
            return Outcome({"table": table, "desired": "SUSPENDED"})
        case s.Resume(table=table):
            warehouse.resume(table)
            return Outcome({"table": table, "desired": "RUNNING"})
        case s.Alter(table=table, what=what, value=value):
            return Outcome(encode(warehouse.alter(table, what, value)))
        case s.SetImmutable(table=table, before=before):
            return Outcome(encode(warehouse.immutable(table, before, progress=progress)))
        case s.Apply(dry_run=dry_run, blue_green=aside):
            return Outcome(encode(warehouse.apply(blue_green=aside, dry_run=dry_run, progress=progress)))
        case s.Drop(table=None):
            return Outcome(encode(ApplyResult(dry_run=False, tables=[])))
        case s.Rollback(table=table):
            return Outcome(encode(warehouse.rollback(table, progress=progress)))
        case s.Rewind(table=table, to=to, cascade=cascade, dry_run=dry_run):
            return Outcome(
                encode(warehouse.rewind(table, to, cascade=cascade, dry_run=dry_run, progress=progress))
            )
        case s.Create() | s.AlterQuery() | s.Drop():
            edit = partial(_edit, statement)
            return Outcome(encode(warehouse.apply(edit, progress=progress)))
        case s.LoadSource(source=source):
            return Outcome(encode(warehouse.load(source, progress=progress)))
        case s.Refresh(table=table, labels=labels, cascade=True, dry_run=dry_run):
            start, end = _ends(labels)
            return Outcome(encode(warehouse.cascade(table, start, end, dry_run=dry_run, progress=progress)))
        case s.Refresh(table=table, labels=labels):
            start, end = _ends(labels)
            return Outcome(encode(warehouse.refresh(table, start, end, progress=progress)))
        case s.RefreshNew(table=table, turn=turn):
            return Outcome(encode(warehouse.refresh_new(table, turn, progress=progress)))
        case s.ShowWorkflows():
            return Outcome(encode(warehouse.workflows()))
        case s.Verify(tables=tables, labels=labels, source=source, repair=repair):
            start, end = _ends(labels)
            found = warehouse.verify(
                list(tables) or None, start=start, end=end, source=source, repair=repair, progress=progress
            )
            return Outcome(encode(found))
        case s.Check(table=table, labels=labels):
            start, end = _ends(labels)
            return Outcome(encode(warehouse.check(table, start=start, end=end, progress=progress)))


def _edit(statement: s.Create | s.AlterQuery | s.Drop, project: Project) -> Edit:
    """What the statement makes of the table's file."""
    from headrace.spec import edit

    match statement:
        case s.Create(text=text, or_alter=or_alter):
            return edit.create(project, text, or_alter=or_alter)
        case s.AlterQuery(table=table, query=query):
            return edit.with_query(project, project.table(table).name, query)
        case s.Drop(table=table):
            assert table is not None
            return edit.drop(project, project.table(table).name)


def _ends(labels: s.Labels | None) -> tuple[str, str] | tuple[None, None]:
    return (labels.start, labels.end) if labels else (None, None)
