"""resync: tables that cannot go on, put right from what they read."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli._shared.errors import FAILED, UsageError
from headrace.cli._shared.options import Json, Project, open_client, tables_here
from headrace.cli._shared.output import note, print_json
from headrace.cli._shared.parity import show_parity
from headrace.cli._shared.progress import run
from headrace.cli._shared.tables import show_refreshed


def resync(
    tables: Annotated[
        list[str] | None,
        typer.Argument(metavar="[T]...", help="Tables.", show_default=False, autocompletion=tables_here),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Every table that says NEEDS RESYNC, upstreams first.")
    ] = False,
    where: Annotated[
        str,
        typer.Option(
            metavar="CONDITION",
            help="Only rows of a running stg table that this holds for, there or in its source.",
        ),
    ] = "",
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

    With --where, as in `--where "user_id BETWEEN 7 AND 9"`, the database is asked for these rows alone.
    """
    if bool(tables) == everything:
        raise UsageError("name tables, or pass --all")
    if where and len(tables or ()) != 1:
        raise UsageError("--where is about one table")
    with open_client(project) as client:
        names = tables or [s.table for s in client.status() if s.state == "NEEDS RESYNC"]
        if not names:
            note("no table says NEEDS RESYNC")
        done = []
        for name in names:
            text = f"ALTER MATERIALIZED TABLE {name} RESYNC" + (" DRY RUN" if dry_run else "")
            text += f" WHERE {where}" if where else ""
            done.append(run(client, text).result)
    if as_json:
        print_json(done)
    elif dry_run:
        show_parity([result["found"] for result in done])
        note("nothing was changed: leave out --dry-run")
    elif done:
        show_refreshed(done)
    if dry_run and not all(result["found"]["equal"] for result in done):
        raise typer.Exit(FAILED)
