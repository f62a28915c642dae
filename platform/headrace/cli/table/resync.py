"""resync: a table that cannot go on, put right from what it reads."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli._shared.errors import FAILED
from headrace.cli._shared.options import Json, Project, Table
from headrace.cli._shared.output import note, print_json
from headrace.cli._shared.parity import show_parity
from headrace.cli._shared.progress import run_statement
from headrace.cli._shared.tables import show_refreshed


def resync(
    table: Table,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what differs; 1 where anything does.")
    ] = False,
    project: Project = None,
    as_json: Json = False,
) -> None:
    """Read a table again from its source, and go on from there.

    The way out of NEEDS RESYNC, whatever the cause. The rows of a stg table are read from the database at a
    position that is marked in the stream, while the old ones stay readable; those of another table are
    computed again from its upstreams. What differs becomes one version. A suspended table stays so.
    """
    text = f"ALTER MATERIALIZED TABLE {table} RESYNC" + (" DRY RUN" if dry_run else "")
    result = run_statement(project, text)
    if as_json:
        print_json(result)
    elif dry_run:
        show_parity([result["found"]])
        note("nothing was changed: leave out --dry-run")
    else:
        show_refreshed([result])
    if dry_run and not result["found"]["equal"]:
        raise typer.Exit(FAILED)
