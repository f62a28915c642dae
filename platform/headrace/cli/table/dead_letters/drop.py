"""dead-letters drop: let messages be that cannot be applied."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from headrace.cli._shared.options import Json, Project
from headrace.cli._shared.output import note, print_json
from headrace.cli._shared.progress import run_statement
from headrace.cli.table.dead_letters.places import At, clause
from headrace.gateway.literals import literal


def dead_letters_drop(
    table: Annotated[str, typer.Argument(metavar="T", help="A stg table.", show_default=False)],
    reason: Annotated[str, typer.Option("--reason", help="Why; it is kept with them.", show_default=False)],
    at: At = None,
    project: Project = None,
    as_json: Json = False,
) -> None:
    """Let them be, for a reason: they count no more, and are still listed by `list --all`."""
    text = f"ALTER MATERIALIZED TABLE {table} DROP DEAD LETTERS{clause(at)} REASON {literal(reason)}"
    done: dict[str, Any] = run_statement(project, text)
    if as_json:
        print_json(done)
    else:
        note(f"{table}: {done['dropped']} dropped")
