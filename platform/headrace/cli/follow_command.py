"""changes: a table's changelog, from a version on. readers: who follows it under a name."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from headrace.cli.errors import UsageError
from headrace.cli.options import Json, Project, Table, open_client
from headrace.cli.output import cell, note, print_columns, print_json, records
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
            quoted = drop.replace("'", "''")
            client.run(f"DROP READER '{quoted}' ON {table}")
            note(f"{table}: reader {drop} is forgotten")
            return
        found: list[dict[str, Any]] = client.run(f"SHOW READERS {table or ''}").result
    if as_json:
        print_json(found)
        return
    names = ("table", "reader", "position", "behind", "progressed_at", "expired")
    print_columns(names, [[row[name] for name in names] for row in found])
