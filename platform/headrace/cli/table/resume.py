"""resume: a suspended table goes on."""

from __future__ import annotations

from headrace.cli._shared.options import Project, Table
from headrace.cli._shared.output import note
from headrace.cli._shared.progress import run_statement


def resume(table: Table, project: Project = None) -> None:
    """Let a suspended table catch up and run."""
    run_statement(project, f"ALTER MATERIALIZED TABLE {table} RESUME")
    note(f"{table} is resumed: `headrace status` shows its lag")
