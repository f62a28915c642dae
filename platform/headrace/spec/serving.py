"""Which tables a server keeps that serves some of a project's sources: those that come of these alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from headrace.errors import Location, SpecError, UnknownName, did_you_mean
from headrace.spec.model import SourceTable, TableName, TableSpec
from headrace.spec.project import Project, raise_all


def sources_of(tables: Mapping[TableName, TableSpec]) -> dict[TableName, frozenset[str]]:
    """Names of the sources that each table comes of, however many tables lie between.

    Args:
        tables: without a cycle; what they read beside each other is left out.
    """
    found: dict[TableName, frozenset[str]] = {}

    def of(name: TableName) -> frozenset[str]:
        if name not in found:
            upstreams = tables[name].upstreams
            own = {u.source for u in upstreams if isinstance(u, SourceTable)}
            read = (u for u in upstreams if isinstance(u, TableName) and u in tables)
            found[name] = frozenset(own).union(*map(of, read))
        return found[name]

    for name in tables:
        of(name)
    return found


def served(project: Project, sources: Collection[str]) -> Project:
    """The tables that come of these sources, and their connectors; the whole project where none is named.

    Raises:
        UnknownName: there is no such source.
        SpecError: a table comes of one of them and of another one: two servers would have to write it.
    """
    if not sources:
        return project
    for source in sources:
        if source not in project.connectors:
            hint = did_you_mean(source, project.connectors)
            raise UnknownName(f"there is no source `{source}`, which `serves` names; {hint}")
    of, wrong = sources_of(project.tables), list[SpecError]()
    for name, found in of.items():
        if found.intersection(sources) and not found <= set(sources):
            wrong.append(_torn(project.tables[name], found, of, sources))
    raise_all(wrong)
    return replace(
        project,
        tables={name: spec for name, spec in project.tables.items() if of[name] <= set(sources)},
        connectors={name: c for name, c in project.connectors.items() if name in sources},
        elsewhere={name: tuple(sorted(of[name])) for name in of if not of[name] <= set(sources)},
    )


def _torn(
    spec: TableSpec,
    found: frozenset[str],
    of: Mapping[TableName, frozenset[str]],
    sources: Collection[str],
) -> SpecError:
    """Of a table that no server of these sources alone could keep; at what it reads of another one's."""
    located = Location(spec.path, spec.query_line)
    for reference in spec.references:
        upstream = reference.upstream
        its = {upstream.source} if isinstance(upstream, SourceTable) else of.get(upstream, frozenset())
        if not set(its) <= set(sources):
            located = reference.location
    names = ", ".join(f"`{name}`" for name in sorted(found))
    return SpecError(
        f"`{spec.name}` comes of the sources {names}, which one server must serve together",
        located,
        f"name all of them in its `serves`, which has {', '.join(sorted(sources))}",
    )


def of_sources(
    tables: Mapping[TableName, TableSpec], sources: Collection[str]
) -> tuple[dict[TableName, TableSpec], dict[TableName, TableSpec]]:
    """Tables that come of any of these sources, and the others; none of the others where none is named."""
    of = sources_of(tables)
    ours = {name for name in tables if not sources or of[name].intersection(sources)}
    return (
        {name: spec for name, spec in tables.items() if name in ours},
        {name: spec for name, spec in tables.items() if name not in ours},
    )
