"""plan: what a project's files say, with or without any service."""

from __future__ import annotations

from headrace.cli._shared.options import Json, Project, load_settings
from headrace.cli._shared.output import note, print_columns, print_json
from headrace.cli._shared.overview import planned_project
from headrace.cli._shared.tables import show_changes


def plan(project: Project = None, as_json: Json = False) -> None:
    """Check the layer files and plan every table.

    Lists each table with its mode and strategy, and what differs from what was applied last. Starts nothing.
    """
    planned = planned_project(load_settings(project))
    if as_json:
        tables = [t.model_dump() for t in planned.tables]
        print_json({"tables": tables, "notes": planned.notes, "changes": planned.changes or []})
        return
    print_columns(
        ("table", "mode", "strategy", "freshness", "partitioned by", "reads"),
        [
            (t.table, t.mode, t.strategy, t.freshness, t.partitioned_by, ", ".join(t.reads))
            for t in planned.tables
        ],
    )
    for line in planned.notes:
        note(f"note: {line}")
    if planned.changes is not None:
        print()
        show_changes(planned.changes)
    if planned.changes:
        note("Next: `headrace apply` does it")
