"""What keeps a table's files and logs in bounds. It changes no row, and runs beside streams and readers."""

from __future__ import annotations

import logging

from headrace.engine.table.table import Table
from headrace.store.delta import logs
from headrace.store.record import versions

log = logging.getLogger(__name__)


def optimize(table: Table, *, bound: int) -> None:
    """Merge small files of the changelog and the snapshot, keep their logs short, and note versions.

    Args:
        bound: small files that a changelog or a partition of a snapshot may have.
    """
    store = table.store
    with store.compacting:  # whoever rewrites the changelog holds it
        merged = store.changelog.merge(bound)
        if merged:
            log.info("%s: merged %s files of the changelog", table.name, merged)
        merged = store.snapshot.merge(bound)
        if merged:
            store.adopt(store.snapshot.newest())
            log.info("%s: merged %s files of the snapshot", table.name, merged)
    versions.note(store.root, store.commit)
    logs.checkpoint(store.changelog.path)
    logs.checkpoint(store.snapshot.path)
    logs.clean(
        store.changelog.path, needed=logs.last_checkpoint(store.changelog.path), seconds=logs.LOG_SECONDS
    )
