"""Statements from Python: what `headrace sql` takes, answered with rows or plain data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def sql(statement: str, *, project: str | Path = ".") -> pa.Table | Any:
    """Run one statement in the project's warehouse server, and wait for it.

    Args:
        statement: `SELECT`, `CREATE`, `ALTER`, `DROP MATERIALIZED TABLE`, `VERIFY` and whatever else
            `headrace sql` takes.
        project: the project directory; its warehouse server must run.
    Returns:
        The rows of a SELECT, or of CHANGES, as a `pyarrow.Table`; of any other statement what
        `headrace sql --json` prints.
    Raises:
        StatementRefused: the statement cannot be read, with line and column, or names what is not there.
        StatementFailed: it could not be done; the message says why and what to do next.
        NotReachable: the warehouse server does not run.
    """
    from headrace.gateway.client import GatewayClient
    from headrace.settings import Settings

    with GatewayClient(Settings.load(Path(project))) as client:
        done = client.run(statement)
        return client.rows(done.id) if done.has_rows else done.result
