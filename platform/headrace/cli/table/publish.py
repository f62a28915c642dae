"""publish: the table in a database that follows one of the warehouse, compared with it and mended."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli._shared.errors import FAILED
from headrace.cli._shared.options import Json, Project, Table
from headrace.cli._shared.output import note, print_columns, print_json
from headrace.cli._shared.progress import run_statement


def publish(
    table: Table,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what differs; 1 where anything does.")
    ] = False,
    project: Project = None,
    as_json: Json = False,
) -> None:
    """Compare a published table with its table, row by row, and mend what differs.

    A table with WITH ('publish' = 'postgresql://…') is published by itself; this is the proof that the rows
    there are its rows, at one version, and the repair of what somebody else has written to them.
    """
    found = run_statement(
        project, f"ALTER MATERIALIZED TABLE {table} PUBLISH" + (" DRY RUN" if dry_run else "")
    )
    differing = found["missing"] + found["different"] + found["extra"]
    if as_json:
        print_json(found)
    else:
        columns = ("table", "target", "version", "rows", "missing", "different", "extra")
        print_columns(columns, [tuple(found[c] for c in columns)])
        for key in found["examples"]:
            print(", ".join(f"{name} = {value}" for name, value in key.items()))
        if differing:
            note("nothing was changed: leave out --dry-run" if dry_run else "they are mended")
    if dry_run and differing:
        raise typer.Exit(FAILED)
