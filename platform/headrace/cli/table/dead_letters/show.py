"""dead-letters show: one message, whole."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from headrace.cli._shared.errors import UsageError
from headrace.cli._shared.options import Json, Project
from headrace.cli._shared.output import print_json
from headrace.cli._shared.progress import run_statement


def dead_letters_show(
    table: Annotated[str, typer.Argument(metavar="T", help="A stg table.", show_default=False)],
    place: Annotated[
        str, typer.Argument(metavar="P:O", help="Its partition and offset, as `0:17`.", show_default=False)
    ],
    project: Project = None,
    as_json: Json = False,
) -> None:
    """Show one, whole: its bytes as text, why and when, and what became of it."""
    letters: list[dict[str, Any]] = run_statement(project, f"SHOW ALL DEAD LETTERS {table}")
    found = next((x for x in letters if f"{x['partition']}:{x['offset']}" == place), None)
    if found is None:
        raise UsageError(
            f"`{table}` has no dead letter at {place}; `headrace dead-letters list {table} --all`"
        )
    if as_json:
        print_json(found)
        return
    for name in ("table", "topic", "partition", "offset", "at", "reason", "outcome", "why", "key", "value"):
        if found[name] is not None:
            print(f"{name + ':':<11}{found[name]}")
