"""Commits without rows: something new is true of the rows that a table has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headrace.engine.table.table import Table


def note_reached(table: Table, *, run_id: str, **changes: Any) -> None:
    """Commit the upstream versions that a derived table's rows cover, and with them `changes` of its record.

    The caller holds the store's `writing`.
    """
    head = table.store.commit
    record = replace(
        head,
        mode="stream",
        version=head.version + 1,
        upstreams=table.reached,
        run_id=run_id,
        batch=-1,
        accounting={},
        decision={},
    )
    table.store.note(replace(record, **changes))
