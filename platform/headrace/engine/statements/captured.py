"""By which columns of their sources the tables run, and which they take over when these change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from sqlglot import exp

from headrace.catalog import Catalog
from headrace.errors import TerminalError
from headrace.sources.database import database
from headrace.sources.schema import MessageKey, SourceSchema
from headrace.sources.schema_change import change, followed, refused
from headrace.spec import Project
from headrace.spec.model import SchemaChangeBehavior as Behavior
from headrace.spec.model import SourceTable

Schemas = Mapping[SourceTable, SourceSchema]


@dataclass(frozen=True)
class Captured:
    """
    Args:
        dsn: connection string of a source by its name.
        declared: the key of its messages that the connector's file names.
        default: what is done when columns change, where no stg table says it.
    """

    catalog: Catalog
    dsn: Callable[[str], str]
    declared: MessageKey
    default: Behavior

    def behaviors(self, project: Project) -> dict[SourceTable, Behavior]:
        """What is done when a captured table's columns change: the strictest that a stg table asks for."""
        asked: dict[SourceTable, list[Behavior]] = {}
        for spec in project.tables.values():
            if spec.source is not None:
                asked.setdefault(spec.source, []).append(spec.schema_change or self.default)
        return {table: min(said, key=list(Behavior).index) for table, said in asked.items()}

    def running(self, project: Project) -> dict[SourceTable, SourceSchema]:
        """The schemas by which the tables run; those that were never asked for are.

        Raises:
            HeadraceError: a source is not there yet, or lacks a table.
        """
        known = self.catalog.captured.known(project.sources())
        if new := self._now(project.sources() - known.keys()):
            self.catalog.captured.note(new.values())
        return known | new

    def now(self, project: Project, deployed: Project) -> dict[SourceTable, SourceSchema]:
        """The schemas by which the tables are to run from now on, whatever has changed.

        Args:
            project: what is declared.
            deployed: what runs.
        """
        known = self.catalog.captured.known(project.sources() & deployed.sources())
        return self._followed(project, known, self._now(project.sources()))

    def follow(self, project: Project, tables: Iterable[SourceTable], *, strictly: bool) -> Schemas:
        """The schemas by which the tables run after the columns of some captured tables have changed.

        Args:
            strictly: whether columns are to be those of the source, where that is what was asked for.
        Raises:
            TerminalError: a person is to decide.
        """
        known, behaviors = self.running(project), self.behaviors(project)
        now = self._now(set(tables))
        for table, wanted in self._followed(project, known, now).items():
            found = change(known[table], wanted)
            if found is None:
                continue
            if (why := refused(found, known[table], now[table], behaviors[table])) is not None:
                raise TerminalError(
                    f"the columns of `{table}` have changed: {found}; {why}. Next: `headrace apply`"
                )
        return {**known, **self._followed(project, known, now, strictly=strictly)}

    def note(self, schemas: Schemas) -> None:
        """Let the tables run by these from now on, also after a restart."""
        self.catalog.captured.note(schemas.values())

    def _followed(
        self, project: Project, known: Schemas, now: Schemas, *, strictly: bool = True
    ) -> dict[SourceTable, SourceSchema]:
        named = {
            part.name.lower()
            for spec in project.tables.values()
            for column in spec.query_ast.find_all(exp.Column)
            for part in column.parts
        }
        behaviors = self.behaviors(project)

        def one(table: SourceTable, there: SourceSchema) -> SourceSchema:
            if table not in known:
                return there
            behavior = behaviors[table]
            if behavior is Behavior.TRY_EVOLVE and not strictly:
                behavior = Behavior.IGNORE
            return followed(known[table], there, behavior, named)

        return {table: one(table, there) for table, there in now.items()}

    def _now(self, tables: Iterable[SourceTable]) -> dict[SourceTable, SourceSchema]:
        found: dict[SourceTable, SourceSchema] = {}
        asked = sorted(tables)
        for source in sorted({t.source for t in asked}):
            own = [t for t in asked if t.source == source]
            found |= database(self.dsn(source)).describe(own, self.declared)
        return found
