"""init: a new project, with an example or for a database that exists."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli._shared.errors import UsageError
from headrace.cli._shared.output import note


def init(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Made where it does not exist.")],
    url: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="URL",
            help="A PostgreSQL database to follow, postgresql://user:password@host:port/database.",
            show_default=False,
        ),
    ] = None,
    source: Annotated[
        str, typer.Option("--source", metavar="NAME", help="What the database is called in SQL.")
    ] = "app",
) -> None:
    """Make a new warehouse project, with tests that pass.

    With --from it has a connector, a stg table of each table that can be followed and a case for each, and it
    is said what the database lacks; nothing is changed there. Without, it has an example of two tables.
    """
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory} is a file: name a directory")
    if (directory / "layers").exists():
        raise UsageError(f"{directory} is a project already: it has layers/")
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,40}", source):
        raise UsageError(f"`{source}` is no name for a source: lower case letters, digits and _")
    from headrace.scaffold.files import example, write

    if url is None:
        write(directory, example(source))
        note(
            f"{directory} is a project with an example of two tables.\n"
            f"Next: `headrace test --project {directory}`; tables of your own in place of the example, or a "
            "project of a database: `headrace init DIR --from postgresql://…`"
        )
        return
    from headrace.scaffold.database import following, look

    found = look(url, source)
    write(directory, following(source, found.followed))
    for why in found.left_out:
        note(f"left out: {why}")
    for what in found.lacks:
        note(f"the database lacks: {what}")
    note(
        f"{directory} follows {len(found.followed)} tables of the database. Its URL is written nowhere.\n"
        f"Next: `headrace test --project {directory}`, {'mend what it lacks, ' if found.lacks else ''}"
        f"`export HEADRACE_POSTGRES_URL=postgresql://…`, `headrace up --project {directory}`"
    )
