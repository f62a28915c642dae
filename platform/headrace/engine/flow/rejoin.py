"""Bringing a table back into its flow: from its recorded frontier to where the flow is."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from headrace.engine.compaction.compaction import compact
from headrace.engine.flow.flow import Flow
from headrace.engine.ingest import offsets
from headrace.engine.ingest.gate import resting_upstreams
from headrace.engine.ingest.ingest import ingest_range
from headrace.engine.ingest.origins import Origins
from headrace.engine.ingest.refused import changed_columns, lost_input
from headrace.engine.ingest.source_columns import SourceColumns
from headrace.engine.refresh.refresh import refresh_table
from headrace.engine.spark.sessions import Sessions
from headrace.engine.table.table import Registry, StgTable, Table, is_stg
from headrace.sources.stream.broker import Broker
from headrace.sources.stream.dead_letters import DeadLetters
from headrace.sources.stream.topics import Topics, following, lost
from headrace.spec.model import RefreshMode, TableName
from headrace.store.record.frontier import Offsets

log = logging.getLogger(__name__)


class CatchUp:
    """Reads a stg table's topic between two cuts by batch jobs, beside its running flow."""

    def __init__(
        self,
        sessions: Sessions,
        topics: Topics,
        origins: Origins,
        columns: SourceColumns,
        dead_letters: DeadLetters,
        broker: Broker,
    ) -> None:
        self._sessions = sessions
        self._topics = topics
        self._origins = origins
        self._columns = columns
        self._dead_letters = dead_letters
        self._broker = broker

    def rejoin(self, flow: Flow, table: Table) -> None:
        """Let `table` advance with its flow again, nothing lost and nothing twice.

        Raises:
            NeedsResync: Kafka no longer holds what the table lacks.
            SourceChanged: the source has other columns than the table reads.
        """
        with table.store.writing:
            table.store.open()
            table.run.covered = {}
        if is_stg(table):
            self._topics.ensure([table.topic])  # one that was deleted is another one then
            if (why := self._origins.look([table]).get(table.name)) is not None:
                raise lost_input(table, why)
            while offsets.size(self._start(table), self._end(flow, table)) > table.limits.small:
                self._read(table, self._end(flow, table))
        with flow.paused():  # between two micro-batches: the flow stands still for the last few events
            if is_stg(table):
                self._read(table, self._end(flow, table))
            flow.join(table.name)
        flow.settle()
        log.info("%s is back in flow %s", table.name, flow.name)

    def _start(self, table: StgTable) -> Offsets:
        frontier, topic = table.store.commit.offsets, table.topic
        bounds = self._topics.bounds([topic])
        if (why := lost(frontier, bounds).get(topic)) is not None:
            raise lost_input(table, why)
        return following(frontier, bounds)

    @staticmethod
    def _end(flow: Flow, table: StgTable) -> Offsets:
        topic = table.topic
        return {topic: dict(flow.position.get(topic, {}))}

    def _read(self, table: StgTable, end: Offsets) -> None:
        with table.store.writing:  # a rewind must not come between looking where to begin and the commit
            self._read_on(table, end)

    def _read_on(self, table: StgTable, end: Offsets) -> None:
        if (why := self._columns.look([table]).get(table.name)) is not None:
            raise changed_columns(table, why)
        ingest_range(
            self._sessions,
            self._broker,
            self._dead_letters,
            table,
            self._start(table),
            end,
            run_id="catch-up",
            batch=-1,
        )


@contextmanager
def between_batches(flows: Sequence[Flow], tables: Collection[TableName]) -> Iterator[None]:
    """While the block lasts no flow advances one of the tables: all stand between two micro-batches."""

    def advancing() -> list[Flow]:
        return [f for f in list(flows) if any(t.name in tables for t in f.tables)]

    while True:
        with ExitStack() as held:
            wanted = advancing()
            for flow in wanted:
                held.enter_context(flow.paused())
            if advancing() == wanted:  # else another flow advances them since
                yield
                return


def refresh_beside(
    sessions: Sessions,
    registry: Registry,
    flows: Sequence[Flow],
    table: Table,
    *,
    run_id: str,
) -> None:
    """Bring a derived table forward outside of a micro-batch, to where its upstreams stand between two.

    A FULL one runs touched partitions again, and what was run again is in the snapshot at once.
    """
    recompute = table.mode is RefreshMode.FULL
    with between_batches(flows, registry.upstreams(table)):
        cut = resting_upstreams(registry, table)
    refresh_table(sessions, registry, table, {}, run_id=run_id, cut=cut, recompute=recompute)
    if recompute:
        compact(sessions.large, table, run_id=run_id)
