"""Subscribe to a table's changes from Python: Arrow tables from the warehouse server, no Spark needed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.gateway.client import GatewayClient
    from headrace.results import Start

POLL_SECONDS = 0.5
"""Pause of a follower that has everything."""


@dataclass(frozen=True)
class ChangeBatch:
    """Changes of whole versions `(after, through]` of one table, in order.

    Args:
        table: `layer.table`.
        after: -1 where the rows are the table itself at `through`, each as `+I`.
        rows: `_version`, `_kind` (`+I -U +U -D`), `_origin` (`stream`, `backfill` or `rewind`), then the
            table's columns in its own types. Within a version a key's old row (`-U`, `-D`) comes before its
            new one.
    """

    table: str
    after: int
    through: int
    rows: pa.Table


def subscribe(
    table: str,
    *,
    project: str | Path = ".",
    from_version: int | Literal["snapshot", "latest"] | None = None,
    follow: bool = False,
    reader: str | None = None,
) -> Iterator[ChangeBatch]:
    """Yield a table's changes, oldest first, until there are no more (or, with `follow`, for ever).

    Args:
        table: `layer.table`.
        project: the project directory; its warehouse server must run.
        from_version: the version that you have: what follows it is yielded; 0 is the empty table. `snapshot`
            yields the rows as they are first, each as `+I`. `latest` yields what comes from now on. None
            begins at the reader's position, else at the oldest change there is, or with `follow` at `latest`.
        reader: a name under which the server remembers what you have done, and keeps what you have not. A
            batch counts as done when the next one is asked for: a reader that dies sees its last one again.
    Raises:
        StatementFailed: retention has removed what follows `from_version`; the message says what is left.
        StatementRefused: there is no such table.
        NotReachable: the warehouse server does not run.
    """
    from headrace.gateway.client import GatewayClient
    from headrace.settings import Settings

    with GatewayClient(Settings.load(Path(project))) as client:
        yield from batches(client, table, from_version=from_version, follow=follow, reader=reader)


def batches(
    client: GatewayClient,
    table: str,
    *,
    from_version: int | Literal["snapshot", "latest"] | None,
    follow: bool,
    reader: str | None,
) -> Iterator[ChangeBatch]:
    """As `subscribe`, over an open client."""
    start: Start
    match from_version:
        case "snapshot":
            start = "SNAPSHOT"
        case "latest":
            start = "LATEST"
        case None if follow and reader is None:
            start = "LATEST"
        case _:
            start = from_version
    while True:
        page = client.changes(table, start, reader=reader)
        if page.rows.num_rows:
            yield ChangeBatch(table, page.after, page.through, page.rows)
        start = page.through
        if page.through < page.head:
            continue
        if not follow:
            if reader is not None and page.through > page.after:
                client.changes(table, start, reader=reader)  # the last batch is done
            return
        if not page.rows.num_rows:
            time.sleep(POLL_SECONDS)
