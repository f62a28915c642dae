"""A warehouse project: all layer files and connectors, in the order their data flows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TypeVar

from headrace.errors import Location, SpecError, TerminalError, UnknownName, did_you_mean
from headrace.spec.connector import Connector, load_connector
from headrace.spec.model import Reference, SourceTable, TableName, TableSpec
from headrace.spec.publishing import PUBLISH_TABLE, Target
from headrace.spec.table import load_table

T = TypeVar("T")


class ProjectErrors(SpecError):
    """All errors of a project; located at the first of them."""

    def __init__(self, errors: Sequence[SpecError]) -> None:
        first = errors[0]
        super().__init__(first.reason, first.location, first.hint)
        self.errors = tuple(errors)

    def __str__(self) -> str:
        return "\n".join(str(e) for e in self.errors)


def raise_all(errors: Sequence[SpecError]) -> None:
    """Raise what was collected: the one error itself, or all of several."""
    if errors:
        raise errors[0] if len(errors) == 1 else ProjectErrors(errors)


ELSEWHERE_HINT = "ask that one; `headrace status` names it"
"""Beside `Project.why_elsewhere`."""


@dataclass(frozen=True)
class Project:
    """What a project directory declares. `tables` stand in topological order, upstreams first.

    Args:
        elsewhere: tables that another server keeps, with the sources that they come of; see `spec.serving`.
    """

    directory: Path
    tables: dict[TableName, TableSpec] = field(hash=False)
    connectors: dict[str, Connector] = field(hash=False)
    elsewhere: Mapping[TableName, tuple[str, ...]] = field(default_factory=dict, hash=False)

    def table(self, name: str) -> TableSpec:
        found = TableName.parse(name.lower())
        if found in self.elsewhere:
            raise UnknownName(f"{self.why_elsewhere(found)}. Next: {ELSEWHERE_HINT}")
        try:
            return self.tables[found]
        except KeyError:
            hint = did_you_mean(name, map(str, self.tables))
            raise UnknownName(f"there is no table `{name}` in {self.directory / 'layers'}; {hint}") from None

    def why_elsewhere(self, name: TableName) -> str:
        """Why a table is another server's."""
        sources = ", ".join(f"`{source}`" for source in self.elsewhere[name])
        return f"`{name}` comes of {sources}, which another server serves"

    def downstream(self, name: TableName | str) -> tuple[TableName, ...]:
        """The tables that read `name` directly, in topological order."""
        return self._consumers.get(str(name), ())

    def sources(self) -> set[SourceTable]:
        """The captured tables that are read."""
        return {u for spec in self.tables.values() for u in spec.upstreams if isinstance(u, SourceTable)}

    @cached_property
    def _consumers(self) -> dict[str, tuple[TableName, ...]]:
        consumers: dict[str, tuple[TableName, ...]] = {}
        for spec in self.tables.values():
            for upstream in spec.upstreams:
                consumers[str(upstream)] = (*consumers.get(str(upstream), ()), spec.name)
        return consumers


def load_project(directory: Path) -> Project:
    """Read every layer file and connector file of a project.

    Raises:
        SpecError: one file is wrong.
        ProjectErrors: several are; a SpecError too, its `errors` lists them all.
        TerminalError: there is no layer file.
    """
    directory = Path(directory)
    layers, errors = directory / "layers", list[SpecError]()
    files = sorted(layers.glob("**/*.sql"))
    if not files:
        hint = "write layers/<layer>/<table>.sql, or name the project with --project DIR"
        raise TerminalError(f"{layers}: there is no layer file\n  hint: {hint}")
    connectors = {
        c.name: c
        for c in _collect(
            load_connector, sorted((directory / "deploy" / "connectors").glob("*.json")), errors
        )
    }
    deep = [f for f in files if f.parent.parent != layers]
    errors += [
        SpecError("a layer file stands in layers/<layer>/", Location(f, 1), "move it there") for f in deep
    ]
    specs = {s.name: s for s in _collect(load_table, [f for f in files if f not in deep], errors)}
    declared = {f"{f.parent.name}.{f.stem}" for f in files}
    known_sources = None if any(e.location.path.suffix == ".json" for e in errors) else connectors
    errors += _unknown_upstreams(specs, declared, known_sources)
    errors += _shared_targets(specs)
    order, cycle = _topological(specs)
    errors += cycle
    raise_all(errors)
    return Project(directory, {name: specs[name] for name in order}, connectors)


def with_tables(project: Project, tables: Iterable[TableSpec]) -> Project:
    """The project with exactly these tables. Raises SpecError and ProjectErrors as `load_project`."""
    specs = {spec.name: spec for spec in tables}
    errors = list(_unknown_upstreams(specs, {str(name) for name in specs}, project.connectors))
    errors += _shared_targets(specs)
    order, cycle = _topological(specs)
    raise_all([*errors, *cycle])
    return replace(project, tables={name: specs[name] for name in order})


def _collect(load: Callable[[Path], T], files: list[Path], errors: list[SpecError]) -> Iterator[T]:
    for file in files:
        try:
            yield load(file)
        except SpecError as error:
            errors.append(error)


def _unknown_upstreams(
    specs: dict[TableName, TableSpec], declared: set[str], connectors: dict[str, Connector] | None
) -> Iterator[SpecError]:
    """References to what is not there. A table whose own file is wrong is there, its error is told."""
    for spec in specs.values():
        for reference in spec.references:
            upstream = reference.upstream
            if isinstance(upstream, SourceTable):
                if connectors is not None and (error := _unknown_source(reference, upstream, connectors)):
                    yield error
            elif str(upstream) not in declared:
                hint = did_you_mean(str(upstream), declared)
                yield SpecError(f"there is no table `{upstream}`", reference.location, hint)


def _shared_targets(specs: dict[TableName, TableSpec]) -> Iterator[SpecError]:
    """Tables that would be published to one and the same table."""
    taken: dict[Target, TableName] = {}
    for name, spec in sorted(specs.items()):
        if spec.target is not None and (other := taken.setdefault(spec.target, name)) != name:
            hint = f"give one of them another '{PUBLISH_TABLE}'"
            yield SpecError(f"{other} is published to {spec.target}, too", Location(spec.path, 1), hint)


def _unknown_source(
    reference: Reference, upstream: SourceTable, connectors: dict[str, Connector]
) -> SpecError | None:
    connector = connectors.get(upstream.source)
    if connector is None:
        hint = did_you_mean(upstream.source, connectors) or f"write deploy/connectors/{upstream.source}.json"
        return SpecError(f"there is no source `{upstream.source}`", reference.location, hint)
    if not connector.captures(upstream.schema, upstream.table):
        name = f"{upstream.schema}.{upstream.table}"
        hint = did_you_mean(name, connector.tables)
        message = (
            f"source `{connector.name}` does not capture `{name}` (table.include.list of {connector.path})"
        )
        return SpecError(message, reference.location, hint)
    return None


def _topological(specs: dict[TableName, TableSpec]) -> tuple[list[TableName], list[SpecError]]:
    graph = {name: [u for u in spec.upstreams if u in specs] for name, spec in sorted(specs.items())}
    sorter: TopologicalSorter[TableName] = TopologicalSorter(graph)
    try:
        sorter.prepare()
    except CycleError as error:
        # graphlib lists upstreams before their readers; the last one closes the circle.
        cycle: list[TableName] = error.args[1]
        reader = specs[cycle[1]]
        reference = next(r for r in reader.references if r.upstream == cycle[0])
        path = " → ".join(map(str, reversed(cycle)))
        return [], [
            SpecError(f"a cycle: {path} (each reads the next)", reference.location, "break it at one of them")
        ]
    order: list[TableName] = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        order += ready
        sorter.done(*ready)
    return order, []
