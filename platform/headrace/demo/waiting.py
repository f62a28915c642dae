"""Conditions the demo waits for. Each says what is still outstanding, or None."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from headrace.errors import TerminalError, TransientError
from headrace.results import TableStatus

Outstanding = str | None


def wait_for(
    what: str,
    check: Callable[[], Outstanding],
    *,
    timeout: float,
    say: Callable[[str], None] = lambda text: None,
    interval: float = 0.5,
) -> None:
    """Poll until nothing is outstanding. Raises TerminalError with what still is after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            outstanding = check()
        except TransientError as error:
            outstanding = str(error)
        if outstanding is None:
            return
        say(outstanding)
        if time.monotonic() > deadline:
            raise TerminalError(
                f"{what}: not within {timeout:.0f} s; outstanding: {outstanding}. "
                "Next: `headrace status` and the logs it names"
            )
        time.sleep(interval)


def raise_if_halted(statuses: Sequence[TableStatus]) -> None:
    """A table that failed will not catch up by waiting."""
    for status in statuses:
        if status.state in ("FAILED", "NEEDS RESYNC", "SUSPENDED"):
            reason = f": {status.last_error}" if status.last_error else ""
            raise TerminalError(f"`{status.table}` is {status.state}{reason}")


def not_caught_up(statuses: Sequence[TableStatus], source_rows: Mapping[str, int]) -> Outstanding:
    """Tables with unapplied input, or a stg table whose row count is not its source's. A table that is
    refreshed on a schedule lags by what it declares: it only has to run.

    Args:
        source_rows: rows in the source by stg table.
    """
    raise_if_halted(statuses)
    absent = set(source_rows) - {status.table for status in statuses}
    if absent:
        return f"no status of {', '.join(sorted(absent))}"
    behind = []
    for status in statuses:
        rows = source_rows.get(status.table)
        if rows is not None and status.rows != rows:
            behind.append(f"{status.table} {status.rows or 0:,} of {rows:,} rows")
        elif status.state != "RUNNING" or status.lag is None:
            behind.append(f"{status.table} {status.state.lower()}")
        elif status.lag and (rows is not None or status.mode == "CONTINUOUS"):
            behind.append(f"{status.table} {status.lag:,} behind")
    return ", ".join(behind[:4]) + (f" and {len(behind) - 4} more" if len(behind) > 4 else "") or None


def not_compacted(statuses: Sequence[TableStatus], table: str) -> Outstanding:
    """Changes of the table that its snapshot does not hold yet."""
    raise_if_halted(statuses)
    for status in statuses:
        if status.table == table:
            return f"{status.tail_rows:,} changed rows to compact" if status.tail_rows else None
    return f"no status of {table}"
