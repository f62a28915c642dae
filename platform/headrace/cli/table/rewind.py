"""rewind: a table, and what came of its later rows, back to how it was."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli._shared.errors import UsageError
from headrace.cli._shared.options import Json, Project, Table
from headrace.cli._shared.output import print_json
from headrace.cli._shared.progress import run_statement
from headrace.cli._shared.rewound import show_rewind


def rewind(
    table: Table,
    to_version: Annotated[
        int | None, typer.Option("--to-version", metavar="N", help="A changelog version.", show_default=False)
    ] = None,
    to_time: Annotated[
        str | None,
        typer.Option(
            "--to-time",
            metavar="TIME",
            help="'YYYY-MM-DD HH:MM:SS', in UTC or with an offset: the newest version of then.",
            show_default=False,
        ),
    ] = None,
    cascade: Annotated[bool, typer.Option("--cascade", help="With what came of its later rows.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    project: Project = None,
    as_json: Json = False,
) -> None:
    """Bring a table back to how it was, rows and frontier.

    Nothing is lost: it is a new version. The tables are suspended afterwards; resumed they go on from where
    they were then, a stg table by reading its topic again.
    """
    if (to_version is None) == (to_time is None):
        raise UsageError("pass one of --to-version and --to-time")
    to = f"VERSION {to_version}" if to_version is not None else f"TIMESTAMP '{to_time}'"
    text = f"ALTER MATERIALIZED TABLE {table} REWIND TO {to}"
    text += (" CASCADE" if cascade else "") + (" DRY RUN" if dry_run else "")
    result = run_statement(project, text)
    if as_json:
        print_json(result)
        return
    show_rewind(result)
