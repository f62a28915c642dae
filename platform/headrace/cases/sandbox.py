"""Where cases run: the project's tables as the engine runs them, over empty stores of their own."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from headrace.cases.model import Cases, cases_file, cases_of
from headrace.engine.spark.sessions import Sessions
from headrace.engine.statements.assemble import assemble
from headrace.engine.table.run import TableRun
from headrace.engine.table.table import Registry, Table
from headrace.errors import SpecError
from headrace.sources.dsn import source_scheme
from headrace.sources.schema import SourceSchema
from headrace.spec import Project
from headrace.spec.connector import Connector
from headrace.spec.model import SourceTable, TableName, TableSpec
from headrace.spec.project import with_tables
from headrace.store.schema import TableSchema
from headrace.store.tables import StoredTable

FRESHNESS_THRESHOLD = timedelta(minutes=30)


@dataclass(frozen=True)
class Sandbox:
    """Some tables of a project, planned once for all of their cases.

    Args:
        planned: the tables and all that they come from, none of which has a store.
        scratch: a folder for what cases write.
    """

    sessions: Sessions
    planned: Registry
    scratch: Path

    def fresh(self, name: TableName, root: Path) -> Registry:
        """The table and what it reads, empty, under `root`."""
        table = self.planned[name]
        found = Registry()
        for upstream in self.planned.upstreams(table).values():
            schema = upstream.store.schema
            given = TableSchema(schema.columns, schema.key, schema.partition)
            found.tables[upstream.name] = self._empty(upstream, root, given)
        found.tables[name] = self._empty(table, root, table.store.schema)
        return found

    def _empty(self, table: Table, root: Path, schema: TableSchema) -> Table:
        run = TableRun(queries=table.run.queries)  # planned once, as in a server that has run for a while
        store = StoredTable(table.name, root, schema)
        empty = replace(table, store=store, run=run)
        store.create(table.template)
        store.open()
        return empty


@contextmanager
def sandbox(
    sessions: Sessions,
    project: Project,
    tables: Collection[TableName],
    known: Mapping[SourceTable, SourceSchema] | None = None,
) -> Iterator[Sandbox]:
    """Plan these tables, and all that they come from. What cases write is gone afterwards.

    Args:
        known: captured tables that no file needs to tell of.
    Raises:
        SpecError: what `assemble` raises; or a captured table's columns are not told.
    """
    needed = _with_upstreams(project, tables)
    own = with_tables(project, [spec for spec in project.tables.values() if spec.name in needed])
    sources = _sources(own, known or {})
    with tempfile.TemporaryDirectory(prefix="headrace-cases-", ignore_cleanup_errors=True) as folder:
        scratch = Path(folder)
        planned = assemble(
            sessions.batch, own, sources, warehouse=scratch / "planned", threshold=FRESHNESS_THRESHOLD
        )
        yield Sandbox(sessions, planned, scratch)


def _with_upstreams(project: Project, tables: Collection[TableName]) -> set[TableName]:
    needed, asked = set[TableName](), list(tables)
    while asked:
        name = asked.pop()
        if name not in needed:
            needed.add(name)
            asked += [u for u in project.tables[name].upstreams if isinstance(u, TableName)]
    return needed


def _sources(
    project: Project, known: Mapping[SourceTable, SourceSchema]
) -> Mapping[SourceTable, SourceSchema]:
    found = dict(known)
    for spec in project.tables.values():
        if spec.source is not None and spec.source not in found:
            found[spec.source] = _schema(spec, spec.source, cases_of(spec), project.connectors)
    return found


def _schema(
    spec: TableSpec, source: SourceTable, cases: Cases | None, connectors: Mapping[str, Connector]
) -> SourceSchema:
    if cases is None or cases.source is None:
        where = cases_file(spec)
        raise SpecError(
            f"the columns of `{source}` are not known without its database",
            spec.references[0].location,
            f"write `source:` in {where}, or let `headrace test --new {spec.name}` do it",
        )
    told = cases.source
    recorded = {
        "columns": [[name, type_name, False] for name, type_name in told.columns.items()],
        "key": list(told.key),
        "full_identity": True,
        "left_out": [],
        "dialect": source_scheme(connectors[source.source]),
    }
    return SourceSchema.of(source, recorded)
