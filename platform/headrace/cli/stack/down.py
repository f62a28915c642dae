"""down: the stack stops."""

from __future__ import annotations

from headrace.cli._shared.options import Project, load_settings
from headrace.cli._shared.output import note
from headrace.cli._shared.progress import show_service


def down(project: Project = None) -> None:
    """Stop the stack.

    Data stays; `headrace up` continues where it was.
    """
    from headrace.services.stack import Stack

    Stack(load_settings(project)).down(on_progress=show_service)
    note("down: no process of the stack is left")
