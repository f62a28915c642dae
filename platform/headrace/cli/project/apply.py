"""apply: the tables become what the files declare. What that changes is shown before it is done."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli._shared import progress
from headrace.cli._shared.options import Json, Project, open_client
from headrace.cli._shared.output import note, print_json
from headrace.cli._shared.parity import show_parity
from headrace.cli._shared.tables import show_changes, show_refreshed


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
    with open_client(project) as client:
        if dry_run or not as_json:
            planned = progress.run(client, "APPLY DRY RUN").result
            if dry_run and as_json:
                print_json(planned)
                return
            show_changes(planned["tables"])
            if dry_run or not planned["tables"]:
                return
        result = progress.run(client, "APPLY BLUE GREEN" if blue_green else "APPLY").result
    if as_json:
        print_json(result)
    else:
        if result["proofs"]:
            show_parity(result["proofs"])
        if any(t["refreshed"] is not None for t in result["tables"]):
            show_refreshed(result["tables"])
        note(f"applied in {result['seconds']:.1f} s")
