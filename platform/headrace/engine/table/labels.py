"""Which partitions a table has."""

from __future__ import annotations

from headrace.engine.table.table import Table
from headrace.store.live.head import Cold


def labels_of(table: Table) -> set[str]:
    """The partitions that have rows, or had some in the snapshot; of a cold table only the snapshot's."""
    store = table.store
    if store.schema.partition is None:
        return set()
    try:
        return store.head().labels(store.schema.partition)
    except Cold:
        return {label for label in store.head_index().partitions if label is not None}
