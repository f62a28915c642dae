"""explain: a table's freshness, mode and strategy, and why."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli._shared.explanation import show_explanation
from headrace.cli._shared.options import Json, Project, Table, load_settings
from headrace.cli._shared.output import print_json
from headrace.cli._shared.overview import planned_table
from headrace.cli._shared.progress import run_statement


def explain(
    table: Table,
    history: Annotated[
        bool,
        typer.Option(
            "--history",
            help="Past refreshes: what ran, why, what was expected, what it took; and what each commit did.",
        ),
    ] = False,
    project: Project = None,
    as_json: Json = False,
) -> None:
    """Tell a table's freshness, mode and strategy, and why.

    Ends with 2 where its file holds an expression whose value stream and batch may not agree on: it is
    named with its line. Works from the files alone where the warehouse does not run.
    """
    from headrace.gateway.errors import NotReachable, StatementInterrupted, StatementRefused

    planned = planned_table(load_settings(project), table, history=history)
    try:
        found = run_statement(
            project, f"EXPLAIN MATERIALIZED TABLE {planned.table}" + (" HISTORY" if history else "")
        )
    except (NotReachable, StatementRefused, StatementInterrupted) as error:
        found = planned.model_dump(mode="json")
        found["notes"].append(f"planned from the files: {str(error).splitlines()[0]}")
    else:
        found["notes"] += [n for n in planned.notes if n not in found["notes"]]
    if as_json:
        print_json(found)
        return
    show_explanation(found)
