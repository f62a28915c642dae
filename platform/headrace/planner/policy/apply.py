"""What `APPLY` does to each table, decided before anything changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.planner.policy.changes import ChangeKind, TableChange, change_of, readers
from headrace.planner.policy.modes import Lineage
from headrace.spec.model import TableName, TableSpec

Column = tuple[str, str]

Shape = tuple[tuple[Column, ...], tuple[str, ...], str | None]
"""Columns (name, type), key and partition of stored rows."""


@dataclass(frozen=True)
class RunningTable:
    """A table as it runs.

    Args:
        spec: by which it runs.
        template: of that definition.
        made_by: template of the definition that its rows are of.
        readable: whether its files have the columns of its definition.
        has_rows: whether it has a version.
        complete_through: the last partition that the batch alone has written, "" for none.
        columns: of a stg table: digest of the source's columns by which it runs.
        lacks: whether it stands still, for a column or a key that its source has not.
    """

    spec: TableSpec
    template: str
    made_by: str
    shape: Shape
    readable: bool = True
    has_rows: bool = True
    complete_through: str = ""
    columns: str = ""
    lacks: bool = False


@dataclass(frozen=True)
class WantedTable:
    """A table as it is declared.

    Args:
        offline: whether the batch alone is to write it.
        left_behind: whether files of a removed table of its name are there.
        joins: whether it is a stg table whose source others have read already: its topic need not hold the
            rows that were there before, so they are read from the source.
        columns: of a stg table: digest of the source's columns that it reads.
        lacks: whether its source has dropped a column that it names, or has no key: its rows stay what they
            were.
    """

    name: TableName
    template: str
    shape: Shape
    offline: bool = False
    left_behind: bool = False
    joins: bool = False
    columns: str = ""
    lacks: bool = False


@dataclass(frozen=True)
class ApplyStep:
    """One table's change.

    Args:
        reshaped: whether it begins again: with other columns, another key or partition.
        extended: whether it only gets more columns: it goes on with the changes that it has.
        joins: whether it is a new stg table whose rows are read from the source.
    """

    change: TableChange
    reshaped: bool = False
    joins: bool = False
    extended: bool = False

    @property
    def renews(self) -> bool:
        """Whether the table's rows are computed anew."""
        return self.reshaped or self.joins or self.change.kind in (ChangeKind.LOGIC, ChangeKind.RECOMPUTED)

    def __str__(self) -> str:
        change = self.change
        text = f"{change.table}: {change.kind}"
        if change.what:
            text += f" ({', '.join(change.what)})"
        if self.reshaped:
            text += ", begins again"
        if change.downstream:
            text += f"; read by {', '.join(map(str, change.downstream))}"
        return text


def plan_apply(
    running: Mapping[TableName, RunningTable],
    wanted: Sequence[WantedTable],
    deployed: Mapping[TableName, TableSpec],
    files: Lineage,
) -> tuple[ApplyStep, ...]:
    """What leads from the tables that run to the wanted ones: first what goes, then upstreams first.

    Args:
        wanted: upstreams first.
        deployed: the definitions that were applied last.
        files: the declarations as they stand in files.
    """
    names = {table.name for table in wanted}
    found = [ApplyStep(TableChange(name, ChangeKind.REMOVED)) for name in running if name not in names]
    again: set[TableName] = set()
    for table in wanted:
        step = _step(running.get(table.name), table, deployed, files, again)
        if step is not None:
            found.append(step)
            again |= {table.name} if step.reshaped else set()
    return tuple(found)


def extends(old: Shape, new: Shape) -> bool:
    """Whether rows of one shape are rows of another that lack some columns."""
    kept = dict(old[0])
    return old[1:] == new[1:] and tuple(c for c in new[0] if c[0] in kept) == old[0]


def _step(
    old: RunningTable | None,
    new: WantedTable,
    deployed: Mapping[TableName, TableSpec],
    files: Lineage,
    again: set[TableName],
) -> ApplyStep | None:
    spec = files.tables[new.name]
    if old is None:  # nobody knows the shape of what a removed table of its name has left
        joins = new.joins and not new.lacks
        return ApplyStep(TableChange(new.name, ChangeKind.ADDED), new.left_behind and not new.lacks, joins)
    if new.lacks:
        return None
    if old.lacks and not old.has_rows and spec.source is not None:
        keyed = TableChange(new.name, ChangeKind.LOGIC, ("its source has a key",), readers(new.name, files))
        return ApplyStep(keyed, joins=True)
    change = change_of(deployed.get(new.name, old.spec), spec, files)
    if old.made_by != new.template or old.shape != new.shape or not old.readable:
        # A `*`, or a type of an upstream, changes columns without a word of the text.
        what = change.what if change is not None and change.what else ("columns",)
        change = TableChange(new.name, ChangeKind.LOGIC, what, readers(new.name, files))
        # Where it was to be applied before and was not done, nobody knows the shape that its rows have.
        known = old.readable and old.template == old.made_by
        if known and old.shape == new.shape:
            return ApplyStep(change)
        # Also without rows: its files have the columns all the same.
        extended = known and old.has_rows and extends(old.shape, new.shape)
        return ApplyStep(change, reshaped=not extended, extended=extended)
    if old.has_rows and (old.lacks or old.columns != new.columns):
        what = (f"its source has {'the column again' if old.lacks else 'other columns'}",)
        return ApplyStep(TableChange(new.name, ChangeKind.RECOMPUTED, what, readers(new.name, files)))
    if lost := [str(u) for u in spec.upstreams if u in again]:
        return ApplyStep(TableChange(new.name, ChangeKind.RECOMPUTED, (f"{', '.join(lost)} begins again",)))
    lacks = bool(old.complete_through) and not new.offline
    if lacks and (change is None or change.kind is ChangeKind.PROPERTIES):
        what = change.what if change is not None else ("it lacks partitions",)
        change = TableChange(new.name, ChangeKind.RECOMPUTED, what, readers(new.name, files))
    elif not lacks and change is not None and change.kind is ChangeKind.RECOMPUTED:
        # It was offline, and never written.
        change = TableChange(new.name, ChangeKind.PROPERTIES, change.what)
    return ApplyStep(change) if change is not None else None
