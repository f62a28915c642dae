"""report: one HTML page of how the warehouse does."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli._shared.options import Project, load_settings
from headrace.cli._shared.output import note


def report(
    file: Annotated[Path, typer.Argument(metavar="[FILE]", help="Where to write it.")] = Path(
        "headrace-report.html"
    ),
    project: Project = None,
) -> None:
    """Write one HTML page of how the warehouse does.

    What reads what, declared and measured freshness, what was proven and when, cost, backfills. The file
    needs nothing else, and can be sent to somebody who was not there. A copy, and Great Expectations' Data
    Docs of the suites, are left in the project's data, where Dagster's assets point to them.
    """
    from headrace.gateway.client import GatewayClient
    from headrace.report.gather import gather
    from headrace.report.write import write_report

    settings = load_settings(project)
    with GatewayClient(settings) as client:
        gathered = gather(client, settings.project.name, datetime.now(UTC))
    written = write_report(settings, gathered)
    file.write_text(written.html, encoding="utf-8")
    problems = gathered.problems
    note(f"{file}: {len(problems)} to look at" if problems else f"{file}: all is well")
    if written.data_docs is not None:
        note(f"{written.data_docs}: Data Docs")
