"""dead-letters replay: apply messages whose cause was mended."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from headrace.cli._shared.errors import FAILED
from headrace.cli._shared.options import Json, Project
from headrace.cli._shared.output import print_json
from headrace.cli._shared.progress import run_statement
from headrace.cli._shared.shown import show_replayed
from headrace.cli.table.dead_letters.places import At, clause


def dead_letters_replay(
    table: Annotated[str, typer.Argument(metavar="T", help="A stg table.", show_default=False)],
    at: At = None,
    project: Project = None,
    as_json: Json = False,
) -> None:
    """Apply them where each would have been; what came later of their rows stays.

    Ends with 1 where some still cannot be applied.
    """
    text = f"ALTER MATERIALIZED TABLE {table} REPLAY DEAD LETTERS" + clause(at)
    done: dict[str, Any] = run_statement(project, text)
    if as_json:
        print_json(done)
    else:
        show_replayed(done)
    if done["refused"]:
        raise typer.Exit(FAILED)
