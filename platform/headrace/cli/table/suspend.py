"""suspend: a table stops."""

from __future__ import annotations

from headrace.cli._shared.options import Project, Table
from headrace.cli._shared.output import note
from headrace.cli._shared.progress import run_statement


def suspend(table: Table, project: Project = None) -> None:
    """Stop a table; its neighbours go on."""
    run_statement(project, f"ALTER MATERIALIZED TABLE {table} SUSPEND")
    note(f"{table} is suspended: `headrace resume {table}` lets it catch up")
