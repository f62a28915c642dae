"""check: a table's constraints."""

from __future__ import annotations

import typer

from headrace.cli._shared.constraints import show_constraints
from headrace.cli._shared.errors import FAILED
from headrace.cli._shared.options import End, Json, Project, Start, Table, find_project, partition_clause
from headrace.cli._shared.output import print_json
from headrace.cli._shared.progress import run_statement


def check(
    table: Table, start: Start = None, end: End = None, project: Project = None, as_json: Json = False
) -> None:
    """Test a table's constraints.

    Ends with 1 where one does not hold.
    """
    clause = partition_clause(find_project(project), [table], start, end)
    results = run_statement(project, f"CHECK {table}{clause}")
    if as_json:
        print_json(results)
    else:
        show_constraints(results)
    if not all(r["passed"] for r in results):
        raise typer.Exit(FAILED)
