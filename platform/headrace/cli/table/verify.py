"""verify: tables against their SQL in batch, and against their source."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli._shared.errors import FAILED
from headrace.cli._shared.options import (
    End,
    Json,
    Project,
    Start,
    find_project,
    partition_clause,
    tables_here,
)
from headrace.cli._shared.output import print_json
from headrace.cli._shared.parity import all_equal, show_parity
from headrace.cli._shared.progress import run_statement


def verify(
    tables: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[T]...", help="Tables. Default: all.", show_default=False, autocompletion=tables_here
        ),
    ] = None,
    start: Start = None,
    end: End = None,
    no_source: Annotated[bool, typer.Option("--no-source", help="Leave out source against stg.")] = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="Recompute what differs, and prove it again.")
    ] = False,
    project: Project = None,
    as_json: Json = False,
) -> None:
    """Prove tables equal to their SQL and source.

    Every table is compared with its SQL in batch at its recorded frontier, every stg table also with its
    source at a known position. Ends with 1 on any difference, and shows the rows. With --repair the
    partitions that differ are recomputed, upstreams first, and 1 means that something differs still.
    """
    names = tables or []
    clause = partition_clause(find_project(project), names, start, end)
    text = "VERIFY" + (f" {', '.join(names)}" if names else "") + clause
    text += (" WITHOUT SOURCE" if no_source else "") + (" REPAIR" if repair else "")
    results = run_statement(project, text)
    if as_json:
        print_json(results)
    else:
        show_parity(results)
    if not all_equal(results):
        raise typer.Exit(FAILED)
