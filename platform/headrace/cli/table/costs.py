"""costs: what each table's work has taken of the processors."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from headrace.cli._shared.options import Json, Project, open_client
from headrace.cli._shared.output import print_json
from headrace.cli._shared.shown import show_costs


def costs(
    tables: Annotated[
        list[str] | None, typer.Argument(metavar="[T…]", show_default=False, help="Tables. Default: all.")
    ] = None,
    hours: Annotated[
        int, typer.Option("--hours", min=0, help="The present hour, and so many before it.")
    ] = 24,
    project: Project = None,
    as_json: Json = False,
) -> None:
    """Show what each table's work has taken of the processors: as a stream, on a schedule, in batch."""
    with open_client(project) as client:
        found: list[dict[str, Any]] = client.run(f"SHOW COSTS LAST {hours} HOURS").result
    found = [cost for cost in found if not tables or cost["table"] in tables]
    if as_json:
        print_json(found)
    else:
        show_costs(found)
