"""A statement's progress on stderr: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from headrace.cli._shared.options import open_client
from headrace.cli._shared.output import note

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.gateway.client import GatewayClient, OnProgress
    from headrace.results import Statement
    from headrace.services.status import ServiceName

_STEP = 10  # per cent between two plain lines of the same message


def run(client: GatewayClient, sql: str) -> Statement:
    """Run a statement with its progress shown. Raises where it fails; Ctrl-C cancels it."""
    with _follower() as follow:
        return client.run(sql, follow)


def run_statement(project: Path | None, sql: str) -> Any:
    """The result of one statement, run at the project's warehouse server with its progress shown."""
    with open_client(project) as client:
        return run(client, sql).result


@contextmanager
def _follower() -> Iterator[OnProgress]:
    if not sys.stderr.isatty():
        yield PlainLines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("queued", total=None)
        # The number of steps is often known only on the way: the bar moves to and fro until then.
        yield lambda now: progress.update(
            task, description=text(now), total=now.total or None, completed=now.done or 0
        )


def text(statement: Statement) -> str:
    """The statement's progress in words."""
    message = statement.message or statement.state.lower()
    if statement.total:
        return f"{message} ({statement.done or 0:,}/{statement.total:,})"
    return message


class PlainLines:
    """One line for a new message, and for each tenth of its steps."""

    def __init__(self) -> None:
        self._seen: tuple[str, int] | None = None

    def __call__(self, statement: Statement) -> None:
        tenth = 100 * (statement.done or 0) // statement.total // _STEP if statement.total else 0
        now = (statement.message, tenth)
        if statement.message and now != self._seen:
            self._seen = now
            print(text(statement), file=sys.stderr, flush=True)


def show_service(service: ServiceName, message: str) -> None:
    """One step of a service that starts or stops."""
    note(f"{service:<18} {message}")
