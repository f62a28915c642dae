"""How a Dagster run hands a statement to the warehouse server and follows it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from logging import Logger
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg

from headrace.errors import Cancelled, TerminalError, TransientError
from headrace.results import Statement

if TYPE_CHECKING:
    from headrace.gateway.client import GatewayClient

# A warehouse server that restarts is back within these. No RetryPolicy: it would also retry what cannot pass.
RETRIES = 4
RETRY_SECONDS = 15


class GatewayResource(dg.ConfigurableResource):
    """The warehouse server of one project. Nothing is opened before `client()` is called."""

    project: str

    @contextmanager
    def client(self) -> Iterator[GatewayClient]:
        """A connection to the gateway, closed at the end of the block."""
        from headrace.gateway.client import GatewayClient
        from headrace.settings import Settings

        with GatewayClient(Settings.load(Path(self.project))) as client:
            yield client


def run_statement(client: GatewayClient, sql: str, log: Logger, *, retry: bool = True) -> Statement:
    """Run one statement to its end with its progress in the run's log.

    The client cancels the statement where the run is terminated meanwhile. A terminal error fails the
    step for good, a transient one lets it be tried again, unless somebody else does (`retry`).
    """
    log.info(sql)
    shown: set[str] = set()

    def follow(statement: Statement) -> None:
        line = _progress(statement)
        if line not in shown:
            shown.add(line)
            log.info(line)

    try:
        return client.run(sql, follow)
    except (TerminalError, TransientError, Cancelled) as error:
        if not retry or not isinstance(error, TransientError):
            failure = dg.Failure(description=str(error), metadata={"statement": sql}, allow_retries=False)
            raise failure from error
        log.warning(f"{error}; trying again in {RETRY_SECONDS} s")
        raise dg.RetryRequested(max_retries=RETRIES, seconds_to_wait=RETRY_SECONDS) from error


def _progress(statement: Statement) -> str:
    text = statement.message or statement.state.lower()
    if statement.total:
        return f"{text} ({statement.done or 0}/{statement.total})"
    return text
