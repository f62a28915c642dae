"""Input of a stg table that no event can make good: its source must be read again, or be set up otherwise."""

from __future__ import annotations

from headrace.engine.table.table import StgTable
from headrace.errors import NeedsResync, SourceChanged


def lost_input(table: StgTable, why: str) -> NeedsResync:
    """Events that the table needs are not to be had any more."""
    return NeedsResync(f"`{table.name}`: {why}. Next: `headrace resync {table.name}`")


def changed_columns(table: StgTable, why: str) -> SourceChanged:
    """Events were made with columns that the table does not know."""
    return SourceChanged(f"`{table.name}`: the columns of `{table.source.table}` have changed: {why}")


def check_files(table: StgTable) -> None:
    """Raises SourceChanged where a server was stopped before the table's files had the columns it runs by."""
    if not table.store.fits:
        why = "its files do not have them yet. Next: wait, or `headrace apply`"
        raise changed_columns(table, why)


def unsent(table: StgTable, column: str) -> NeedsResync:
    """An update lacks a value that the row keeps."""
    return NeedsResync(
        f"`{table.name}`: column `{column}` was not sent because it did not change. Next: `headrace resync "
        f"{table.name}`, and for those to come ALTER TABLE {table.spec.source} REPLICA IDENTITY FULL"
    )
