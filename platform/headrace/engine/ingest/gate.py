"""One consistent cut: where a micro-batch may be cut, and upstreams as they stand between two of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from headrace.engine.ingest.offsets import lowered
from headrace.engine.table.table import Registry, Table
from headrace.sources.stream.envelope import Event
from headrace.sources.stream.transactions import Last, Transactions, divide, transaction_topic
from headrace.spec.connector import Connector
from headrace.spec.model import TableName
from headrace.store.live.head import Head
from headrace.store.record.frontier import Offsets


class Gate:
    """Lets whole transactions through and holds the rest back for the next micro-batch.

    What is held lies only in memory: no table's frontier covers it, so a restart reads it again.
    """

    def __init__(self, sources: Sequence[Transactions]) -> None:
        self.sources = sources
        self._held: list[Event] = []

    @property
    def topics(self) -> list[str]:
        """The transaction topics to read beside the data."""
        return [source.topic for source in self.sources]

    @property
    def held(self) -> Sequence[Event]:
        """What waits, in the order of each partition."""
        return self._held

    @property
    def holds(self) -> bool:
        """Whether something waits."""
        return bool(self._held)

    def begin(self, applied: Mapping[str, Collection[str]], since_ms: Mapping[str, int]) -> None:
        """Reading begins at another cut.

        Args:
            applied: see `Transactions.begin`; so is `since_ms`, by transaction topic.
        """
        self._held = []
        for source in self.sources:
            source.begin(applied, since_ms.get(source.topic, 0))

    @property
    def captured(self) -> list[str]:
        """The topics whose events wait for their transactions."""
        return sorted(topic for source in self.sources for topic in source.captured)

    def whole(self, announced: Mapping[str, Iterable[bytes | None]], last: Mapping[str, Last]) -> None:
        """Complete the transactions that a cut holds whole, whose events are not at hand. None is held.

        Args:
            announced: new messages of each transaction topic up to the cut.
            last: see `Transactions.whole`.
        """
        self._held = []
        for source in self.sources:
            source.whole(announced.get(source.topic, ()), last)

    def done(self, topic: str, event: Last) -> bool:
        """Whether an event of the topic may be applied."""
        return all(source.done(event) for source in self.sources if topic in source.captured)

    def admit(self, events: Sequence[Event], ends: Offsets) -> tuple[list[Event], Offsets]:
        """What may be applied now, and the cut that covers it.

        Args:
            events: new messages of the flow's topics and of the transaction topics.
            ends: the cut after them.
        """
        topics = set(self.topics)
        announced = [e for e in events if e.topic in topics]
        data = [*self._held, *(e for e in events if e.topic not in topics)]
        waiting: set[str] = set()
        for source in self.sources:
            waiting |= source.waiting([e.value for e in announced if e.topic == source.topic], data)
        ready, self._held = divide(data, waiting)
        return ready, lowered(ends, self._held)


def gate_of(tables: Iterable[Table], connector: Callable[[str], Connector]) -> Gate:
    """For the flow of these tables, where their connectors announce transactions."""
    captured: dict[str, set[str]] = {}
    for source in (t.spec.source for t in tables):
        if source is not None:
            captured.setdefault(source.source, set()).add(source.topic)
    topics = {name: transaction_topic(connector(name)) for name in captured}
    return Gate([Transactions(t, captured[name]) for name, t in topics.items() if t is not None])


def resting_upstreams(registry: Registry, table: Table) -> dict[TableName, Head]:
    """The upstreams of a table that is refreshed outside its flow, between two micro-batches.

    Call it while the flows that advance the upstreams rest, which the caller sees to.

    Returns:
        Heads at one cut; without the upstreams that must be compacted before they can be read.
    """
    found = {name: upstream.warm_head() for name, upstream in registry.upstreams(table).items()}
    return {name: head for name, head in found.items() if head is not None}
