"""Ingesting more of a topic than a small micro-batch has: in the driver while it fits there."""

from __future__ import annotations

from contextlib import closing

from headrace.engine.ingest import offsets
from headrace.engine.ingest.arrow import MOST_EVENTS, ingest_local, local_query
from headrace.engine.ingest.spark import Loaded, ingest_frame
from headrace.engine.spark.sessions import Sessions
from headrace.engine.table.table import Table
from headrace.sources.dead_letters import DeadLetters
from headrace.sources.messages import Messages
from headrace.store.record.frontier import Offsets

PIECE = 50_000
"""Messages that the driver holds undecoded."""


def ingest_large(
    sessions: Sessions,
    bootstrap: str,
    dead_letters: DeadLetters,
    table: Table,
    start: Offsets,
    end: Offsets,
    *,
    run_id: str,
    batch: int,
) -> Loaded | None:
    """Commit what the stg table's topic has between two cuts. None where that changes nothing."""
    if offsets.size(start, end) <= MOST_EVENTS and (query := local_query(table)) is not None:
        with closing(Messages(bootstrap)) as consumer:
            pieces = (consumer.read(*step) for step in offsets.steps(start, end, PIECE))
            found = ingest_local(sessions.flow, table, query, pieces, end, run_id=run_id, batch=batch)
        if found is not None:
            return found
    frame = offsets.read(sessions.large, bootstrap, start, end)
    return ingest_frame(sessions.large, table, frame, end, dead_letters, run_id=run_id, batch=batch)
