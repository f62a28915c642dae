"""Which continuous tables advance together in one micro-batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.planner.policy.modes import Lineage
from headrace.spec.model import RefreshMode, SourceTable, TableName


@dataclass(frozen=True)
class FlowPlan:
    """A connected set of continuous tables, upstreams first.

    Attributes:
        name: after its first stg table, or its first table; stable while that table is in it.
        tables: in topological order.
        sources: captured tables that its stg tables read.
        upstreams: tables outside of the flow that it follows by their changelogs.
    """

    name: str
    tables: tuple[TableName, ...]
    sources: tuple[SourceTable, ...]
    upstreams: tuple[TableName, ...] = ()


def group(project: Lineage, modes: Mapping[TableName, RefreshMode]) -> list[FlowPlan]:
    """The connected components of the CONTINUOUS tables of `modes`, joined by lineage."""
    continuous = [n for n in project.tables if modes.get(n) is RefreshMode.CONTINUOUS]
    leader = {name: name for name in continuous}

    def find(name: TableName) -> TableName:
        while leader[name] != name:
            name = leader[name]
        return name

    for name in continuous:
        for upstream in project.tables[name].upstreams:
            if isinstance(upstream, TableName) and upstream in leader:
                first, second = sorted((find(name), find(upstream)))
                leader[second] = first
    members: dict[TableName, list[TableName]] = {}
    for name in continuous:
        members.setdefault(find(name), []).append(name)
    return [_plan(project, tuple(tables)) for tables in members.values()]


def _plan(project: Lineage, tables: tuple[TableName, ...]) -> FlowPlan:
    upstreams = dict.fromkeys(u for name in tables for u in project.tables[name].upstreams)
    first = min(tables, key=lambda t: (t.layer != "stg", t))
    return FlowPlan(
        f"{first.layer}_{first.table}",
        tables,
        tuple(u for u in upstreams if isinstance(u, SourceTable)),
        tuple(u for u in upstreams if isinstance(u, TableName) and u not in tables),
    )
