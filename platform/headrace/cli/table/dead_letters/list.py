"""dead-letters list: messages that could not be read."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli._shared.options import Json, Project
from headrace.cli._shared.output import print_json, print_result
from headrace.cli._shared.progress import run_statement


def dead_letters_list(
    table: Annotated[
        str | None, typer.Argument(metavar="[T]", help="One stg table. Default: all.", show_default=False)
    ] = None,
    project: Project = None,
    as_json: Json = False,
) -> None:
    """List them, with offset and reason."""
    letters = run_statement(project, "SHOW DEAD LETTERS" + (f" {table}" if table else ""))
    if as_json:
        print_json(letters)
    else:
        print_result(letters)
