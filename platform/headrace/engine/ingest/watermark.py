"""How far tables are in their sources' time: the commit time up to which everything is in them.

A micro-batch tells it of its stg tables. Where the connector announces transactions, it is the commit time of
the last one that has come in whole, with all before it. Elsewhere it is the newest commit time of the batch
before: Kafka has no order between topics, and what a batch lacks comes with the next one. Heartbeats that the
connector writes to the source move it on where nothing else changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from headrace.engine.ingest.gate import Gate
from headrace.engine.table.table import Registry, Table
from headrace.planner.policy.completion import end_of
from headrace.sources.marks import MESSAGE
from headrace.sources.stream.envelope import Event
from headrace.spec.model import TableName
from headrace.spec.partitions.completion import Signal

_STREAMED = ("c", "u", "d", MESSAGE)
"""Operations of events in the order of commits: those of a first snapshot tell nothing of what is to come."""


class SourceTime:
    """Of one flow.

    Args:
        gate: what knows of transactions that are announced.
    """

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._came: dict[str, int] = {}

    def small(
        self, events: Iterable[Event], tables: Iterable[Table], active: Collection[TableName], *, whole: bool
    ) -> None:
        """Mark the stg tables after a micro-batch of these events was applied.

        Args:
            whole: nothing that was there was left for the next one.
        """
        if not whole:
            return
        before = dict(self._came)
        for event in events:
            if event.op in _STREAMED:
                source = event.topic.partition(".")[0]
                self._came[source] = max(self._came.get(source, 0), event.source_ms)
        known = before | {source.name: source.complete_ms for source in self._gate.sources}
        _mark(known, tables, active)

    def large(self, tables: Sequence[Table], active: Collection[TableName], *, whole: bool) -> None:
        """Mark them after one that was too large to look at its events, or at its transactions."""
        if not whole:
            return
        _mark(self._came, tables, active)
        for table in tables:
            source = table.spec.source
            if source is not None and source.source in self._came:  # else it may still be a first snapshot
                newest = table.store.commit.source_ms
                self._came[source.source] = max(self._came[source.source], newest)


def _mark(known: dict[str, int], tables: Iterable[Table], active: Collection[TableName]) -> None:
    for table in tables:
        source = table.spec.source
        if source is not None and table.name in active:
            table.store.watermark.move(table.store.version, known.get(source.source, 0))


def _written(table: Table, bound: str, least: int) -> int:
    """Of a table that holds partitions up to a bound: it has nothing of what comes after.

    The watermark was past the bound when that was written, also where no process remembers it.
    """
    end = int(1000 * end_of(table.spec, bound).timestamp())
    return end if table.spec.completion.signal is Signal.WATERMARK else min(least, end)


def watermark(registry: Registry, table: Table) -> int:
    """The watermark of a table, milliseconds since 1970; 0 while nothing is known.

    That of a derived table is the least of its upstreams' at the versions that it has reached, as it was last
    found for these: whoever follows all tables asks for upstreams first. Where the batch alone writes it, it
    is the end of the last partition written.
    """
    upstreams = registry.upstreams(table)
    if upstreams:
        reached = table.reached
        least = min(u.store.watermark.at(reached.get(str(n), 0)) for n, u in upstreams.items())
        if bound := table.store.commit.complete_through:
            least = _written(table, bound, least)
        # The version is read last: it covers what was reached, or more.
        table.store.watermark.move(table.store.version, least)
    return table.store.watermark.newest
