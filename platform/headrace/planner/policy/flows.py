"""Which continuous tables advance together in one micro-batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.planner.policy.modes import Lineage
from headrace.spec.model import RefreshMode, SourceTable, TableName

MOST_FLOWS = 8
"""Up to so many, connected tables have a flow of their own. Each has a streaming query and clients of Kafka,
and reads the transactions of its sources: a hundred cost a server more than their tables do."""


@dataclass(frozen=True)
class FlowPlan:
    """Continuous tables, upstreams first: connected ones, or all over the same sources.

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
    """The connected components of the CONTINUOUS tables of `modes`, joined by lineage.

    More than `MOST_FLOWS` are joined by what they read: those over tables of the same source are one.
    """
    continuous = [n for n in project.tables if modes.get(n) is RefreshMode.CONTINUOUS]
    leader = {name: name for name in continuous}

    def find(name: TableName) -> TableName:
        while leader[name] != name:
            name = leader[name]
        return name

    def join(one: TableName, other: TableName) -> None:
        first, second = sorted((find(one), find(other)))
        leader[second] = first

    for name in continuous:
        for upstream in project.tables[name].upstreams:
            if isinstance(upstream, TableName) and upstream in leader:
                join(name, upstream)
    if len({find(name) for name in continuous}) > MOST_FLOWS:
        reading: dict[str, TableName] = {}
        for name in continuous:
            for upstream in project.tables[name].upstreams:
                if isinstance(upstream, SourceTable):
                    join(name, reading.setdefault(upstream.source, name))
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
