"""erase: what history holds of a row that the source has deleted."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from headrace.cli._shared.erased import show_erased
from headrace.cli._shared.errors import FAILED
from headrace.cli._shared.options import Json, Project, Table
from headrace.cli._shared.output import print_json
from headrace.cli._shared.progress import run_statement
from headrace.gateway.literals import literal

_NAMED = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)


def erase(
    table: Table,
    key: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY...",
            help="Its value, as in `17`, or of a key of several columns `grp=1 id=2`.",
            show_default=False,
        ),
    ],
    history: Annotated[
        bool,
        typer.Option("--history", help="With all older versions of tables downstream that carry no key."),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show where it is.")] = False,
    project: Project = None,
    as_json: Json = False,
) -> None:
    """Erase what is left of a deleted row: changelogs, older snapshots, dead letters, topic.

    The source must have deleted the row. Tables downstream that carry the key are part of it. At the end
    every place is looked through again; 1 where something is left. Older versions of the snapshots cannot be
    read afterwards, and the topic begins after what was applied.
    """
    named = [_NAMED.fullmatch(part) for part in key]
    parts = [
        f"{found[1]} = {literal(found[2])}" if found is not None else literal(part)
        for part, found in zip(key, named, strict=True)
    ]
    text = f"ALTER MATERIALIZED TABLE {table} ERASE KEY ({', '.join(parts)})"
    text += " WITH HISTORY" if history else ""
    result = run_statement(project, text + (" DRY RUN" if dry_run else ""))
    if as_json:
        print_json(result)
    else:
        show_erased(result)
    if not dry_run and any(place["left"] and not place["kept"] for place in result["places"]):
        raise typer.Exit(FAILED)
