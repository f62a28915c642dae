"""up: the stack starts."""

from __future__ import annotations

from headrace.cli._shared.options import Project, load_settings
from headrace.cli._shared.output import note
from headrace.cli._shared.progress import show_service
from headrace.errors import HeadraceError


def up(project: Project = None) -> None:
    """Start the stack, or what of it does not run."""
    from headrace.services.stack import Stack

    settings = load_settings(project)
    stack = Stack(settings)
    # The warehouse reads the topics that the registration of a connector creates.
    stack.up(only=["connect"], on_progress=show_service)
    problem: HeadraceError | None = None
    try:
        stack.register_connectors(on_progress=show_service)
    except HeadraceError as error:
        problem = error
    stack.up(on_progress=show_service)
    if problem is not None:
        raise problem  # the rest is up: what is stored can be read while the source is being mended
    note(f"up: `headrace status` shows the tables, Dagster is at {settings.dagster_url}")
