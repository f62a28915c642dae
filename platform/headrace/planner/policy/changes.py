"""What differs between the tables that are deployed and those that the files declare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from headrace.planner.policy.modes import Lineage
from headrace.spec.alteration import freshness_text
from headrace.spec.identity import rows_identity
from headrace.spec.model import TableName, TableSpec, Violation
from headrace.spec.partitions.completion import RunMode


class ChangeKind(StrEnum):
    """What is done to a table.

    ADDED and REMOVED say it. LOGIC: its rows are other ones. RECOMPUTED: it reads a table that begins again,
    or the batch alone has written it and it is to stream: it lacks the partitions that were not complete.
    PROPERTIES: its rows stay as they are.
    """

    ADDED = "ADDED"
    REMOVED = "REMOVED"
    LOGIC = "LOGIC"
    RECOMPUTED = "RECOMPUTED"
    PROPERTIES = "PROPERTIES"


@dataclass(frozen=True)
class TableChange:
    """One table that is to change.

    Args:
        what: the parts of its definition that differ, as a person would name them.
        downstream: tables that read it, directly or not, in topological order; where its rows change.
    """

    table: TableName
    kind: ChangeKind
    what: tuple[str, ...] = ()
    downstream: tuple[TableName, ...] = ()


def properties(spec: TableSpec) -> dict[str, object]:
    """What of a declaration leaves the rows as they are, by name."""
    return {
        "FRESHNESS": freshness_text(spec.freshness),
        "REFRESH_MODE": spec.refresh_mode,
        "REFRESH_POLICY": spec.refresh_policy,
        "constraints": _constraints(spec),
        "START_MODE": spec.start,
        "IMMUTABLE WHERE": spec.immutable_before,
        "COMMENT": spec.comment,
        "WITH": dict(spec.options),
    }


def _constraints(spec: TableSpec) -> list[tuple[str, str, Violation]]:
    found = [c for c in spec.constraints if not c.on_violation.removes_rows]
    return [(c.name, c.expression, c.on_violation) for c in found]


def changes(deployed: Mapping[TableName, TableSpec], project: Lineage) -> list[TableChange]:
    """What leads from the deployed tables to the declared ones: first what goes, then upstreams first."""
    gone = [TableChange(name, ChangeKind.REMOVED) for name in deployed if name not in project.tables]
    found = [change_of(deployed.get(name), spec, project) for name, spec in project.tables.items()]
    return [*gone, *(change for change in found if change is not None)]


def change_of(before: TableSpec | None, spec: TableSpec, project: Lineage) -> TableChange | None:
    """The change of one declared table, None where there is none.

    Args:
        before: as it is deployed; None where it is not.
    """
    if before is None:
        return TableChange(spec.name, ChangeKind.ADDED)
    if what := _different(rows_identity(before), rows_identity(spec)):
        what += _different(properties(before), properties(spec))
        return TableChange(spec.name, ChangeKind.LOGIC, what, readers(spec.name, project))
    what = _different(properties(before), properties(spec))
    if before.run_mode is RunMode.OFFLINE and spec.run_mode is not RunMode.OFFLINE:
        return TableChange(spec.name, ChangeKind.RECOMPUTED, what, readers(spec.name, project))
    if what:
        return TableChange(spec.name, ChangeKind.PROPERTIES, what)
    return None


def readers(table: TableName, project: Lineage) -> tuple[TableName, ...]:
    """The tables that read it, directly or not, in topological order."""
    reached = {table}
    for name in project.tables:
        if name in reached:
            reached.update(project.downstream(name))
    return tuple(name for name in project.tables if name in reached and name != table)


def _different(before: Mapping[str, object], after: Mapping[str, object]) -> tuple[str, ...]:
    return tuple(name for name, value in after.items() if value != before[name])
