"""What a project's tables are declared to be, by their files and by statements since, and what runs of it."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.errors import SpecError, TerminalError
from headrace.planner.policy.changes import ChangeKind, TableChange, change_of, changes
from headrace.settings import SQLITE
from headrace.spec import Project, load_project
from headrace.spec.alteration import Alteration
from headrace.spec.model import TableName, TableSpec
from headrace.spec.project import with_tables
from headrace.spec.serving import of_sources, served
from headrace.spec.syntax.text import SourceText
from headrace.spec.table import load_table, read_table

if TYPE_CHECKING:
    from headrace.catalog import Catalog
    from headrace.settings import Settings

log = logging.getLogger(__name__)


def load_own(settings: Settings) -> Project:
    """What the files declare of the tables that this server keeps. Raises as `load_project` and `served`."""
    return served(load_project(settings.project), settings.served)


def load_declared(settings: Settings) -> tuple[Project, list[Alteration]]:
    """The project as statements have altered it, by its catalog, and what they have altered.

    A project that never ran has no catalog, and none is made.

    Raises:
        SpecError: a layer file, or a connector, is wrong.
        TerminalError: there is no layer file, a newer headrace wrote the catalog, or it does not answer.
    """
    project = load_own(settings)
    with _catalog(settings.catalog) as catalog:
        if catalog is None:
            return project, []
        altered, counting, _ = catalog.alterations.applied(project)
        return altered, counting


def waiting_changes(settings: Settings) -> list[TableChange] | None:
    """What the files declare otherwise than was applied last, by the texts; None where nothing ever was.

    Raises as `load_declared`.
    """
    with _catalog(settings.catalog) as catalog:
        if catalog is None:
            return None
        project = load_own(settings)
        deployed = deployed_tables(catalog, project, settings.served)
    return changes(deployed, project) if deployed else None


@contextmanager
def _catalog(url: str) -> Iterator[Catalog | None]:
    if url.startswith(SQLITE) and not Path(url.removeprefix(SQLITE)).is_file():
        yield None  # without SQLAlchemy, which takes half a second to load
        return
    from headrace.catalog import Catalog

    found = Catalog.existing(url)
    with closing(found) if found is not None else nullcontext() as catalog:
        yield catalog


def deployed_tables(
    catalog: Catalog, project: Project, sources: Collection[str] = ()
) -> dict[TableName, TableSpec]:
    """The tables as they were applied last, with the text that made their rows.

    Args:
        project: what is declared now of the tables that this server keeps.
        sources: those that it serves; all where none is named.
    Raises:
        TerminalError: one that is declared here runs on the server of another source.
    """
    ours, others = of_sources(applied_tables(catalog, project.directory), sources)
    for name in project.tables:
        if name in others:
            raise TerminalError(
                f"`{name}` was applied by the server of another source, whose it is until that lets it go. "
                "Next: `headrace apply` there, with the same files, then here"
            )
    return ours


def applied_tables(catalog: Catalog, directory: Path) -> dict[TableName, TableSpec]:
    """The texts that were applied last, as of layer files in a project's directory."""
    found = {}
    for row in catalog.rows():
        name = TableName.parse(row.name)
        path = directory / "layers" / name.layer / f"{name.table}.sql"
        try:
            found[name] = read_table(SourceText(path, row.definition))
        except SpecError as error:  # an older headrace kept less than the file
            log.warning("%s: its applied definition cannot be read: %s", name, error)
    return found


class Edited:
    """Which layer files say something else than what runs. A file is read again only once it was written."""

    def __init__(self) -> None:
        self._seen: dict[Path, tuple[int, str, str | None]] = {}

    def warning(self, spec: TableSpec, project: Project) -> str | None:
        """What of a table's file waits for `headrace apply`, None for nothing.

        Args:
            spec: what runs, without what statements have altered; of `project`.
        """
        try:
            written = spec.path.stat().st_mtime_ns
        except FileNotFoundError:
            return "its file is gone. Next: `headrace apply` lets the table go, `headrace plan` shows more"
        seen = self._seen.get(spec.path)
        if seen is None or seen[:2] != (written, spec.definition):
            seen = self._seen[spec.path] = (written, spec.definition, self._compared(spec, project))
        return seen[2]

    @staticmethod
    def _compared(spec: TableSpec, project: Project) -> str | None:
        try:
            change = change_of(spec, load_table(spec.path), project)
        except SpecError as error:
            return f"its file was edited and is wrong: {error}"
        if change is None:
            return None
        return f"its file was edited ({', '.join(change.what)}). Next: `headrace plan`, `headrace apply`"


def running_project(project: Project, deployed: Mapping[TableName, TableSpec]) -> tuple[Project, bool]:
    """What a server runs when it starts, and whether the files wait for `headrace apply`.

    Where the files would change the rows of a table, everything stays as it was applied: its text goes with
    its rows. Only what leaves rows as they are is taken from the files. Else the files count as they are.
    """
    touching = (ChangeKind.LOGIC, ChangeKind.RECOMPUTED)
    logic = {c.table for c in changes(deployed, project) if c.kind in touching}
    if not logic:
        return project, False
    tables = [spec if name in logic else project.tables.get(name, spec) for name, spec in deployed.items()]
    try:
        return with_tables(project, tables), True
    except SpecError as error:
        log.warning("what was applied last cannot run: %s", error)
        return project, False
