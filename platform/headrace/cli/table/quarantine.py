"""quarantine: rows that QUARANTINE constraints keep out of a table."""

from __future__ import annotations

from headrace.cli._shared import progress
from headrace.cli._shared.options import Json, Project, Table, open_client
from headrace.cli._shared.output import print_rows


def quarantine(table: Table, project: Project = None, as_json: Json = False) -> None:
    """Show the rows that QUARANTINE constraints keep out of a table.

    Each with the names of the constraints that it breaks. Once rule or data are mended they come into the
    table.
    """
    with open_client(project) as client:
        finished = progress.run(client, f"SHOW QUARANTINE {table}")
        print_rows(client.rows(finished.id), as_json=as_json)
