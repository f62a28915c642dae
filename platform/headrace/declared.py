"""What a project's tables are declared to be: by their files, and by statements since."""

from __future__ import annotations

from pathlib import Path

from headrace.spec import Project, load_project
from headrace.spec.alteration import Alteration


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
    if not (state / "catalog.db").is_file():
        return project, []
    from headrace.catalog import Catalog  # SQLAlchemy takes half a second to load

    catalog = Catalog.in_directory(state)
    try:
        altered, counting, _ = catalog.alterations.applied(project)
        return altered, counting
    finally:
        catalog.close()
