"""changes: a table's changelog, from a version on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.options import Project, Table, load_settings
from headrace.cli.output import cell, print_json, records
from headrace.errors import UnknownName, did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.gateway.client import GatewayClient

_VERSION = "_version"
_POLL_SECONDS = 0.5


def changes(
    table: Table,
    from_version: Annotated[
        int | None,
        typer.Option(
            "--from",
            metavar="V",
            min=0,
            show_default=False,
            help="First changelog version. Default: the oldest there is; with --follow, the next one.",
        ),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on until Ctrl-C.")] = False,
    project: Project = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
) -> None:
    """Print a table's changelog.

    Row changes in order, each with its kind: +I, -U, +U or -D.
    """
    from headrace.gateway.client import GatewayClient

    with GatewayClient(load_settings(project)) as client:
        version = _next_version(client, table) if follow and from_version is None else from_version or 0
        while True:
            rows = client.query(f"CHANGES {table} FROM VERSION {version}")
            for row in records(rows):
                if as_json:
                    print_json(row, line=True)
                else:
                    print("  ".join(f"{name}={cell(value)}" for name, value in row.items()), flush=True)
            if not follow:
                return
            version = _after(rows, version)
            time.sleep(_POLL_SECONDS)


def _next_version(client: GatewayClient, table: str) -> int:
    versions = {status.table: status.version for status in client.status()}
    if table.lower() not in versions:
        raise UnknownName(f"no table `{table}`: {did_you_mean(table, versions)}")
    return versions[table.lower()] + 1


def _after(rows: pa.Table, version: int) -> int:
    import pyarrow.compute as pc

    return int(pc.max(rows[_VERSION]).as_py()) + 1 if rows.num_rows else version
