"""logs: what the services say."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Annotated

import typer

from headrace.cli._shared.errors import UsageError
from headrace.cli._shared.options import Project, load_settings
from headrace.errors import did_you_mean


def logs(
    services: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SERVICE]...", help="E.g. warehouse. Default: all.", show_default=False),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="Of each, so many of the last.")] = 50,
    project: Project = None,
) -> None:
    """Print the services' logs, newest lines last."""
    settings = load_settings(project)
    there = {file.stem: file for file in sorted(settings.logs.glob("*.log"))}
    if not there:
        raise UsageError(f"no logs in {settings.logs} yet: run `headrace up`")
    wanted = services or list(there)
    for name in wanted:
        if name not in there:
            raise UsageError(
                f"no log of a service `{name}`\n  hint: {did_you_mean(name, there) or ', '.join(there)}"
            )
    tail = shutil.which("tail")
    if tail is None:
        raise UsageError(f"no `tail` on the PATH: the files are {', '.join(str(there[n]) for n in wanted)}")
    sys.stdout.flush()
    # -F: a log that was rotated or deleted is followed by its name.
    os.execv(tail, ["tail", "-n", str(lines), *(["-F"] if follow else []), *(str(there[n]) for n in wanted)])
