"""Commits without rows: something new is true of the rows that a table has."""

from __future__ import annotations

from typing import Any

from headrace.engine.table.table import Table


def note_reached(table: Table, *, run_id: str, **changes: Any) -> None:
    """Commit the upstream versions that a derived table's rows cover, and with them `changes` of its record.

    The caller holds the store's `writing`.
    """
    head = table.store.commit
    table.store.note(head.next("stream", run_id, **{"upstreams": table.reached, **changes}))
