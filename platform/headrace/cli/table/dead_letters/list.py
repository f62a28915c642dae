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
    everything: Annotated[
        bool, typer.Option("--all", help="With those that were replayed or dropped.")
    ] = False,
    project: Project = None,
    as_json: Json = False,
) -> None:
    """List them, with offset and reason."""
    what = "ALL DEAD LETTERS" if everything else "DEAD LETTERS"
    letters = run_statement(project, f"SHOW {what}" + (f" {table}" if table else ""))
    if as_json:
        print_json(letters)
    else:
        hidden = {"raw_key", "raw_value", *(() if everything else ("outcome", "why"))}
        print_result([{k: v for k, v in letter.items() if k not in hidden} for letter in letters])
