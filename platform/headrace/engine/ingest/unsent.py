"""Large values that PostgreSQL did not send because they did not change."""

from __future__ import annotations

from headrace.engine.table.table import StgTable
from headrace.sources.envelope import NetChange, has_row_before
from headrace.sources.types import unsent_columns


def first_lacking(table: StgTable, change: NetChange) -> str | None:
    """The first column whose value the last event lacks. One that shows the row before has them all."""
    if change.after is None or has_row_before(change.events[-1]):
        return None
    return next((column.name for column in unsent_columns(table.source.columns, change.after)), None)
