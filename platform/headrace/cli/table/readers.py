"""readers: who follows a table under a name."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from headrace.cli._shared.errors import UsageError
from headrace.cli._shared.options import Json, Project, open_client
from headrace.cli._shared.output import note, print_columns, print_json
from headrace.gateway.literals import literal


def readers(
    table: Annotated[str | None, typer.Argument(metavar="[T]", show_default=False, help="A table.")] = None,
    drop: Annotated[
        str | None,
        typer.Option("--drop", metavar="NAME", show_default=False, help="Forget this reader of T."),
    ] = None,
    project: Project = None,
    as_json: Json = False,
) -> None:
    """List who follows a table under a name (`changes --reader`), and how far behind."""
    if drop is not None and table is None:
        raise UsageError("--drop needs the reader's table: `headrace readers T --drop NAME`")
    with open_client(project) as client:
        if drop is not None:
            client.run(f"DROP READER {literal(drop)} ON {table}")
            note(f"{table}: reader {drop} is forgotten")
            return
        found: list[dict[str, Any]] = client.run(f"SHOW READERS {table or ''}").result
    if as_json:
        print_json(found)
        return
    names = ("table", "reader", "position", "behind", "progressed_at", "expired")
    print_columns(names, [[row[name] for name in names] for row in found])
