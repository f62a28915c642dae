"""apply: the tables become what the files declare. What that changes is shown before it is done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli._shared import progress
from headrace.cli._shared.options import Json, Project, load_settings, open_client
from headrace.cli._shared.output import note, print_json
from headrace.cli._shared.tables import show_applied
from headrace.errors import TerminalError, TransientError

if TYPE_CHECKING:
    from headrace.settings import Settings


def apply(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what it would change.")] = False,
    blue_green: Annotated[
        bool, typer.Option("--blue-green", help="Build changed tables aside, prove them, then swap.")
    ] = False,
    project: Project = None,
    as_json: Json = False,
) -> None:
    """Let the tables be what the files declare.

    Others go on beside it. A table with another query rests while its history is computed by the new text;
    with `--blue-green` it streams on until the new one is built aside, proven and swapped in.
    """
    settings = load_settings(project)
    if not dry_run:
        _write_missing(settings)
    changed, new = ([], []) if dry_run else _connectors(settings)
    if settings.environment and (differing := [*changed, *new]):
        named = ", ".join(f"`{name}`" for name in differing)
        raise TerminalError(
            f"Kafka Connect has {named} otherwise than the file says, and the environment "
            f"`{settings.environment}` changes no connector. Next: `headrace apply` with that file in the "
            "production, then here"
        )
    _register(settings, changed)  # what they capture now is read by the tables that are applied
    with open_client(project) as client:
        if dry_run or not as_json:
            planned = progress.run(client, "APPLY DRY RUN").result
            if dry_run and as_json:
                print_json(planned)
                return
            show_applied(planned)
            if dry_run:
                return
        result = progress.run(client, "APPLY BLUE GREEN" if blue_green else "APPLY").result
    _register(settings, new)
    if as_json:
        print_json(result)
    else:
        show_applied(result)


def _write_missing(settings: Settings) -> None:
    from headrace.sources.stg_files import write_missing

    for file in write_missing(settings):
        note(f"{file} is written")


def _connectors(settings: Settings) -> tuple[list[str], list[str]]:
    """Those whose files say otherwise than Kafka Connect has them, and those that it has not."""
    from headrace.sources.registration import differing

    try:
        return differing(settings)
    except TransientError as error:
        note(f"connectors stay as they are: {error}")
        return [], []


def _register(settings: Settings, names: list[str]) -> None:
    from headrace.services.stack import Stack

    if names:
        Stack(settings).register_connectors(
            only=names, on_progress=lambda service, message: note(f"{service}: {message}")
        )
