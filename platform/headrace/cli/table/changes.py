"""changes: a table's changelog, from a version on."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from headrace.cli._shared.errors import UsageError
from headrace.cli._shared.options import Project, Table, open_client
from headrace.cli._shared.output import cell, print_json, records
from headrace.subscription import batches


def changes(
    table: Table,
    from_version: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="V",
            show_default=False,
            help="The version that you have: what follows it is printed, 0 is the empty table. `snapshot`: "
            "first the rows as they are, each as +I. `latest`: what comes from now on. Default: the reader's "
            "position, else the oldest change there is; with --follow, `latest`.",
        ),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on until Ctrl-C.")] = False,
    reader: Annotated[
        str | None,
        typer.Option(
            "--reader",
            metavar="NAME",
            show_default=False,
            help="Remember under this name what was printed, begin there the next time, and let retention "
            "keep what was not.",
        ),
    ] = None,
    project: Project = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
) -> None:
    """Print a table's changelog.

    Row changes in order, each with its version, its kind (+I, -U, +U or -D) and its origin.
    """
    begin = _start(from_version)
    with open_client(project) as client:
        for batch in batches(client, table, from_version=begin, follow=follow, reader=reader):
            for row in records(batch.rows):
                if as_json:
                    print_json(row, line=True)
                else:
                    print("  ".join(f"{name}={cell(value)}" for name, value in row.items()), flush=True)


def _start(text: str | None) -> int | Literal["snapshot", "latest"] | None:
    match text:
        case None | "snapshot" | "latest":
            return text
        case _ if text.isdecimal():
            return int(text)
    raise UsageError(f"--from {text}: a version (0, 1, …), `snapshot` or `latest`")
