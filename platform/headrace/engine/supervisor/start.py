"""What the warehouse needs once its sources are there: their schemas, and how flows are made."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from headrace.catalog import Catalog
from headrace.engine.flow.flow import Flow
from headrace.engine.flow.flow_tables import FlowTables
from headrace.engine.flow.micro_batch import MicroBatch
from headrace.engine.ingest.gate import gate_of
from headrace.engine.ingest.origins import Origins
from headrace.engine.ingest.source_columns import SourceColumns
from headrace.engine.spark.sessions import Sessions
from headrace.engine.table.immutable import create
from headrace.engine.table.table import Registry, Table
from headrace.errors import HeadraceError
from headrace.planner.policy.flows import FlowPlan
from headrace.settings import Settings
from headrace.sources.marks import mark_topics
from headrace.sources.stream.broker import Broker
from headrace.sources.stream.dead_letters import DeadLetters
from headrace.sources.stream.topics import Topics
from headrace.spec.connector import Connector
from headrace.spec.model import SourceTable

log = logging.getLogger(__name__)

RETRY_SECONDS = 2.0
"""Pause between two attempts to start while the source is not there yet."""


def attempts(start: Callable[[], None], stopping: threading.Event) -> Iterator[str]:
    """Try until it succeeds, or until a stop; tell each time why it did not."""
    said = ""
    while not stopping.is_set():
        try:
            return start()
        except HeadraceError as error:
            why = str(error)
        except Exception as error:
            log.exception("the tables cannot start")
            why = f"{type(error).__name__}: {error}"
        if why != said:
            log.info("waiting: %s", why)
        yield (said := why)
        stopping.wait(RETRY_SECONDS)


def flow_maker(
    connector: Callable[[str], Connector],
    registry: Registry,
    settings: Settings,
    *,
    sessions: Sessions,
    topics: Topics,
    origins: Origins,
    columns: SourceColumns,
    dead_letters: DeadLetters,
    on_failure: Callable[[Table, Exception], None],
) -> Callable[[FlowPlan], Flow]:
    """Makes the flow of a plan, without starting it.

    Args:
        connector: that of a source by its name.
    """

    broker = Broker.of(settings)

    def make(plan: FlowPlan) -> Flow:
        tables = [registry[n] for n in plan.tables]
        advancing = FlowTables(plan.name, tables, sessions=sessions, registry=registry, on_failure=on_failure)
        micro_batch = MicroBatch(
            advancing,
            sessions=sessions,
            broker=broker,
            columns=columns,
            dead_letters=dead_letters,
            gate=gate_of(tables, connector),
        )
        return Flow(
            advancing,
            micro_batch,
            sessions=sessions,
            topics=topics,
            origins=origins,
            columns=columns,
            marks=_marks(advancing.sources, connector),
            broker=broker,
            directory=settings.state / "checkpoints",
            max_offsets=settings.max_offsets_per_trigger,
        )

    return make


def _marks(captured: Iterable[SourceTable], connector: Callable[[str], Connector]) -> list[str]:
    """The topics by which marked positions of the sources of these tables arrive."""
    tables = list(captured)
    sources = sorted({table.source for table in tables})
    return [
        topic
        for source in sources
        for topic in mark_topics(connector(source), [t for t in tables if t.source == source])
    ]


OPENED_AT_ONCE = 4
"""Tables: opening one waits for its files more than it computes."""


def open_tables(registry: Registry, catalog: Catalog, report: Callable[[str], None]) -> None:
    """Open every table from what is on disk, and let the catalog know of it.

    Args:
        report: told how far it is.
    """
    with ThreadPoolExecutor(OPENED_AT_ONCE) as pool:
        for done, table in enumerate(pool.map(_opened, registry)):
            report(f"its tables are opened: {done} of {len(registry.tables)}")
            catalog.register(table.spec, table.mode, table.mode_reason)


def _opened(table: Table) -> Table:
    create(table)
    table.store.open()
    # An apply that was cut short: nobody knows the shape that the rows have.
    table.reshaped = table.store.version > 0 and table.store.commit.template != table.template
    return table
