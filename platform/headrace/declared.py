"""What a project's tables are declared to be, by their files and by statements since, and what runs of it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.errors import SpecError
from headrace.planner.changes import ChangeKind, changes
from headrace.spec import Project, load_project
from headrace.spec.alteration import Alteration
from headrace.spec.model import TableName, TableSpec
from headrace.spec.project import with_tables
from headrace.spec.table import read_table
from headrace.spec.text import SourceText

if TYPE_CHECKING:
    from headrace.catalog import Catalog

log = logging.getLogger(__name__)

CATALOG = "catalog.db"


def load_declared(directory: Path, state: Path) -> tuple[Project, list[Alteration]]:
    """The project as statements have altered it, by its default catalog, and what they have altered.

    A project that never ran has no catalog, and none is made.

    Args:
        state: the warehouse's state directory.
    Raises:
        SpecError: a layer file, or a connector, is wrong.
        TerminalError: there is no layer file, or another version of headrace wrote the catalog.
    """
    project = load_project(directory)
    with _catalog(state) as catalog:
        if catalog is None:
            return project, []
        altered, counting, _ = catalog.alterations.applied(project)
        return altered, counting


def load_deployed(directory: Path, state: Path) -> dict[TableName, TableSpec]:
    """The tables as they were applied last, by the default catalog; none where there is no catalog."""
    with _catalog(state) as catalog:
        return deployed_tables(catalog, directory) if catalog is not None else {}


@contextmanager
def _catalog(state: Path) -> Iterator[Catalog | None]:
    """The default catalog; None where there is none, and none is made."""
    if not (state / CATALOG).is_file():
        yield None
        return
    from headrace.catalog import Catalog  # SQLAlchemy takes half a second to load

    with closing(Catalog.in_directory(state)) as catalog:
        yield catalog


def deployed_tables(catalog: Catalog, directory: Path) -> dict[TableName, TableSpec]:
    """The tables as they were applied last, with the text that made their rows.

    Args:
        directory: the project's.
    """
    found = {}
    for row in catalog.rows():
        name = TableName.parse(row.name)
        path = directory / "layers" / name.layer / f"{name.table}.sql"
        try:
            found[name] = read_table(SourceText(path, row.definition))
        except SpecError as error:  # an older headrace kept less than the file
            log.warning("%s: its applied definition cannot be read: %s", name, error)
    return found


def running_project(project: Project, deployed: Mapping[TableName, TableSpec]) -> tuple[Project, bool]:
    """What a server runs when it starts, and whether the files wait for `headrace apply`.

    Where the files would change the rows of a table, everything stays as it was applied: its text goes with
    its rows. Only what leaves rows as they are is taken from the files. Else the files count as they are.
    """
    logic = {c.table for c in changes(deployed, project) if c.kind is ChangeKind.LOGIC}
    if not logic:
        return project, False
    tables = [spec if name in logic else project.tables.get(name, spec) for name, spec in deployed.items()]
    try:
        return with_tables(project, tables), True
    except SpecError as error:
        log.warning("what was applied last cannot run: %s", error)
        return project, False
