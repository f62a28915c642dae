"""Whether a table's rows and events add up: over all of its commits, one by one, and in its files."""

from __future__ import annotations

from headrace.engine.table.table import Table
from headrace.results import TableAccount
from headrace.store.record.account import problems
from headrace.store.record.commits import HISTORY, Commit


def accounting(table: Table) -> TableAccount:
    """Looks at records and at what the snapshot's files say of themselves; no row is read."""
    store = table.store
    store.reread()
    with store.compacting:  # the files that are counted are those of the pin
        pin, rows = store.pin, store.head_index().count(None)
    head = store.commit
    whole = 0 < pin.compacted == pin.through  # else its partitions stand at several versions
    [at] = store.records(pin.compacted - 1, pin.compacted) if whole else [None]
    recent = _recent(table, head.version)
    found = problems(head, recent, None if at is None else (at, rows))
    return TableAccount(
        table=str(table.name),
        version=head.version,
        rows=head.rows,
        totals=head.totals,
        commits=sum(record is not None for record in recent),
        snapshot_version=None if at is None else at.version,
        snapshot_rows=None if at is None else rows,
        balanced=not found,
        problems=found,
    )


def _recent(table: Table, version: int) -> list[Commit | None]:
    return table.store.records(max(0, version - HISTORY), version)
