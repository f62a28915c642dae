"""Input of a stg table that no event can make good: its source must be read again, or be set up otherwise."""

from __future__ import annotations

from headrace.engine.table.table import StgTable
from headrace.errors import NeedsResync


def truncated(table: StgTable) -> NeedsResync:
    return NeedsResync(
        f"`{table.name}`: the source table was truncated. Next: `headrace resync {table.name}`"
    )


def unsent(table: StgTable, column: str) -> NeedsResync:
    return NeedsResync(
        f"`{table.name}`: column `{column}` was not sent because it did not change. Next: ALTER "
        f"TABLE {table.spec.source} REPLICA IDENTITY FULL, then `headrace resume {table.name}`"
    )
