"""clone: another environment of a project, from its tables as they are now."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli._shared.options import Json, Project, find_project
from headrace.cli._shared.output import note, print_json


def clone(
    source: Annotated[
        Path, typer.Argument(metavar="FROM", help="The project directory of what is cloned, here.")
    ],
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Of the environment.")] = "dev",
    replace: Annotated[
        bool, typer.Option("--replace", help="Delete the environment first that this checkout has.")
    ] = False,
    project: Project = None,
    as_json: Json = False,
) -> None:
    """Let this checkout be an environment beside another one, with that one's tables as they are now.

    Their files are shared, not copied. After `headrace up` they follow the same sources by the files here;
    nothing there changes: neither tables, nor connectors, nor what is published.
    """
    from headrace.environments.clone import clone as make
    from headrace.settings import Settings

    there = Settings.load(find_project(source))
    made = make(there, find_project(project), name, replace=replace, report=note)
    if as_json:
        print_json({"environment": name, "tables": made.tables, **asdict(made.files)})
        return
    copied = f"{made.files.copied:,} copied" if made.files.copied else "none copied"
    note(
        f"environment `{name}`: {made.tables} tables of {there.project}, {made.files.linked:,} data files "
        f"shared, {copied}.\nNext: `headrace up`; edit, `headrace plan`, `headrace apply`, `headrace verify`"
    )
