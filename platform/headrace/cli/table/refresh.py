"""refresh: a backfill. Of a cascade, what will run is shown before it runs, and the proof after it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli._shared.errors import FAILED, UsageError
from headrace.cli._shared.options import End, Json, Project, Start, Table, find_project, partition_clause
from headrace.cli._shared.output import print_json
from headrace.cli._shared.parity import all_equal
from headrace.cli._shared.progress import run_statement
from headrace.cli._shared.tables import show_cascade, show_refresh


def refresh(
    table: Table,
    start: Start = None,
    end: End = None,
    everything: Annotated[
        bool, typer.Option("--all", help="The whole table, and its new definition.")
    ] = False,
    cascade: Annotated[
        bool, typer.Option("--cascade", help="Then what it touches downstream, and prove all of it.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --cascade: only show tables, partitions and bytes.")
    ] = False,
    project: Project = None,
    as_json: Json = False,
) -> None:
    """Backfill: recompute partitions A to B.

    By the table's own SQL, beside its stream, which goes on. A cascade ends with 1 where a table differs from
    its SQL afterwards.
    """
    directory = find_project(project)
    clause = " ALL" if everything else partition_clause(directory, [table], start, end, required=True)
    statement = f"ALTER MATERIALIZED TABLE {table} REFRESH{clause}"
    if dry_run and not cascade:
        raise UsageError("--dry-run shows a cascade: pass --cascade too")
    if cascade:
        _cascade(project, statement, dry_run=dry_run, as_json=as_json)
        return
    result = run_statement(project, statement)
    if as_json:
        print_json(result)
        return
    show_refresh(result)


def _cascade(project: Path | None, statement: str, *, dry_run: bool, as_json: bool) -> None:
    """Submit the cascade of a REFRESH statement. Ends with 1 where a table differs from its SQL after it."""
    if dry_run or not as_json:
        planned = run_statement(project, f"{statement} CASCADE DRY RUN")
        if as_json:
            print_json(planned)
        else:
            show_cascade(planned)
        if dry_run:
            return
    result = run_statement(project, f"{statement} CASCADE")
    proofs = [proof for table in result["tables"] for proof in table["proof"]]
    if as_json:
        print_json(result)
    else:
        show_cascade(result)
    if not all_equal(proofs):
        raise typer.Exit(FAILED)
