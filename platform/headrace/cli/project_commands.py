"""init, plan: a project's files, without any service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.apply_command import show_changes
from headrace.cli.errors import UsageError
from headrace.cli.options import Json, Project, load_settings
from headrace.cli.output import note, print_columns, print_json

_SETTINGS = """\
# Settings of this project; every one can also be given as HEADRACE_<NAME> in the environment.
# gateway_port = 58080
# postgres_url = "postgresql://user:password@host:5432/database"
# catalog_url = "postgresql://user:password@host:5432/catalog"
"""


def init(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Made where it does not exist.")],
) -> None:
    """Make a new warehouse project."""
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory} is a file: name a directory")
    if (directory / "layers").exists():
        raise UsageError(f"{directory} is a project already: it has layers/")
    for folder in ("layers/stg", "layers/dwd", "layers/dws", "deploy/connectors"):
        (directory / folder).mkdir(parents=True, exist_ok=True)
        (directory / folder / ".gitkeep").touch()
    for name, text in (("headrace.toml", _SETTINGS), (".gitignore", ".headrace/\n")):
        if not (directory / name).exists():
            (directory / name).write_text(text, encoding="utf-8")
    note(
        f"{directory} is a project. Next: a Debezium connector as deploy/connectors/<source>.json,\n"
        "a layers/stg/<table>.sql for each of its tables, then "
        f"`headrace plan --project {directory}`"
    )


def plan(project: Project = None, as_json: Json = False) -> None:
    """Check the layer files and plan every table.

    Lists each table with its mode and strategy, and what differs from what was applied last. Starts nothing.
    """
    from headrace.cli.planning import plan_project

    planned = plan_project(load_settings(project))
    if as_json:
        tables = [t.as_dict() for t in planned.tables]
        print_json({"tables": tables, "notes": planned.notes, "changes": planned.changes})
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
    if planned.changes:
        print()
        show_changes(planned.changes)
        note("Next: `headrace apply` does it")
