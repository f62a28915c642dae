"""source role: the SQL for a role that can follow a source and nothing else."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli._shared.options import Json, Project, load_settings
from headrace.cli._shared.output import print_json
from headrace.errors import UnknownName, did_you_mean


def source_role(
    source: Annotated[str, typer.Argument(help="The source: its connector file's name.")],
    name: Annotated[str, typer.Option("--name", help="The role.")] = "headrace_source",
    project: Project = None,
    as_json: Json = False,
) -> None:
    """Print the SQL for a role that can follow a source and nothing else.

    What the connector, the bulk snapshot, looking at columns and `verify` need. Nothing is run: its owner
    does, with the database's own client.
    """
    from headrace.sources.database import database
    from headrace.sources.dsn import source_dsn
    from headrace.spec import load_project

    settings = load_settings(project)
    connectors = load_project(settings.project).connectors
    if source not in connectors:
        raise UnknownName(f"there is no source `{source}`; {did_you_mean(source, connectors)}")
    dsn = source_dsn(connectors[source], settings.source_environment())
    script = database(dsn).role(connectors[source], name)
    if as_json:
        print_json({"statements": script.statements, "hints": script.hints})
        return
    print("\n".join([*(f"-- {line}" for line in script.hints), *script.statements]))
