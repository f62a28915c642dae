"""Which transactions of a source have come in whole, by Debezium's transaction topic.

Kafka has no order between topics, so a micro-batch may hold one table's part of a transaction and not yet
another's. Debezium announces each transaction (`provide.transaction.metadata`): BEGIN, and END with the
number of its events by table, in commit order, which is also the order of each table's topic. Events wait
until their transaction and every earlier one is complete.
"""

from __future__ import annotations

import json
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from headrace.sources.stream.envelope import Event, transaction_id
from headrace.spec.connector import Connector

log = logging.getLogger(__name__)

PATIENCE = 30.0
"""Seconds without a message of the source after which events wait no longer for their transaction."""

REMEMBERED = 100_000
"""Complete transactions whose names are kept: a connector that was killed tells of the last ones again."""


def transaction_topic(connector: Connector) -> str | None:
    """The connector's transaction topic, or None where it announces none."""
    if connector.config.get("provide.transaction.metadata", "false").lower() != "true":
        return None
    return f"{connector.name}.{connector.config.get('topic.transaction', 'transaction')}"


@dataclass(frozen=True)
class Last:
    """The last event of a topic before a cut.

    Args:
        transaction: None of a snapshot's row.
        order: of the event among its transaction's events in the topic, from 1 on.
        source_ms: when it was committed, milliseconds since 1970.
    """

    transaction: str | None
    order: int = 0
    source_ms: int = 0


@dataclass
class _Transaction:
    since: float
    expected: dict[str, int] | None = None  # topic → events; None until END
    committed_ms: int = 0  # at the source
    overtaken: bool = False  # a later one was announced: its END is not to come

    def needs(self, topic: str) -> int:
        return (self.expected or {}).get(topic, 0)


class Transactions:
    """The open transactions of one source, as one flow has read them.

    Args:
        topic: the source's transaction topic.
        captured: the flow's topics of that source; events of other tables are not waited for.
        clock: seconds.
    """

    def __init__(
        self, topic: str, captured: Collection[str], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.topic = topic
        self._prefix = topic.partition(".")[0]
        self._captured = frozenset(captured)
        self._clock = clock
        self.complete_ms = 0
        """Commit time up to which every transaction came in whole, milliseconds since 1970; 0 if unknown."""
        self._several: set[str] = set()  # topics with several partitions
        self.begin({}, 0)

    @property
    def name(self) -> str:
        """That of the source."""
        return self._prefix

    @property
    def captured(self) -> frozenset[str]:
        return self._captured

    def begin(self, applied: Mapping[str, Collection[str]], since_ms: int) -> None:
        """Reading begins at another cut.

        Args:
            applied: of topics, the transactions that the last events of their partitions before the cut are
                of: of the newest of them and of all earlier ones the topic's events are in the tables.
            since_ms: commit time from which transactions are announced, milliseconds since 1970.
        """
        self._since_ms = since_ms
        self._open: dict[str, _Transaction] = {}
        self._fresh: set[str] = set()  # of those without their END, the ones that none has overtaken
        self._ended: list[str] = []  # in commit order, the complete ones taken off
        self._covered = {topic: set(names) for topic, names in applied.items() if topic in self._captured}
        self._done: OrderedDict[str, None] = OrderedDict()
        self._arrived = self._clock()
        self._waiting = 0
        self._with_events: set[str] = set()

    def done(self, event: Last) -> bool:
        """Whether an event may be applied: its transaction is complete, or was before any that is announced.

        A row that a snapshot has read is of none.
        """
        return event.transaction is None or self._is_done(event.transaction, event.source_ms)

    def _is_done(self, name: str, source_ms: int) -> bool:
        return name in self._done or (name not in self._open and 0 < source_ms < self._since_ms)

    def waiting(self, announced: Iterable[bytes | None], events: Sequence[Event]) -> frozenset[str]:
        """The transactions whose events must wait.

        Args:
            announced: new messages of the transaction topic, in order.
            events: all events of the flow's topics that are not applied yet, new and waiting ones.
        """
        self._announce(announced)
        mine = [e for e in events if e.transaction is not None and e.topic in self._captured]
        if len(mine) != self._waiting:
            self._arrived, self._waiting = self._clock(), len(mine)
        self._with_events = {event.transaction or "" for event in mine}
        seen: dict[tuple[str, str], set[int]] = {}
        newest: dict[str, str] = {}
        for number, event in enumerate(mine):
            name = event.transaction or ""
            order = event.transaction_order or -number - 1  # a repeated event counts once
            seen.setdefault((name, event.topic), set()).add(order)
            newest[event.topic] = name
            if event.partition:
                self._several.add(event.topic)
            if not self._is_done(name, event.source_ms):
                opened = self._opened(name)
                # MySQL's TRUNCATE is a transaction of its own, whose END Debezium does not tell.
                if event.truncates and event.xid is None and opened.expected is None:
                    self._end(name, opened, {event.topic: 1}, event.source_ms)

        def whole(name: str, topic: str, needs: int) -> bool:
            if len(seen.get((name, topic), ())) >= needs:
                return True
            after = newest.get(topic, name)
            if after == name or after not in self._open or topic in self._several:
                return False
            log.warning("transaction %s: an event of %s is not there", name, topic)
            return True  # one of a later transaction is: no more of this one will come

        self._complete(whole)
        self._waiting = sum(e.transaction not in self._done for e in mine)
        return frozenset(self._open)

    def whole(self, announced: Iterable[bytes | None], last: Mapping[str, Last]) -> None:
        """Complete what a cut holds whole. `done` says then which events may be applied.

        Args:
            announced: new messages of the transaction topic up to the cut, in order.
            last: the last event before it of each topic that has any after what is applied.
        """
        self._announce(announced)
        places = {name: place for place, name in enumerate(self._ended)}

        def whole(name: str, topic: str, needs: int) -> bool:
            found = last.get(topic)
            if found is None or self.done(found):
                return False
            if found.transaction == name:
                return found.order >= needs
            return places.get(found.transaction or "", len(places)) > places[name]

        self._complete(whole)

    def _announce(self, messages: Iterable[bytes | None]) -> None:
        now = self._clock()
        for message in messages:
            self._arrived = now
            try:
                content = json.loads((message or b"").decode())  # of bytes it would guess their encoding
                name, status = transaction_id(content["id"]), content["status"]
                counts: dict[str, int] = {}
                if status == "END":
                    listed = content["data_collections"] or ()
                    counts = {f"{self._prefix}.{c['data_collection']}": c["event_count"] for c in listed}
            except (ValueError, KeyError, TypeError, AttributeError):
                log.warning("%s: no transaction event: %s", self.topic, message)
                continue
            if name in self._done:
                continue
            opened = self._opened(name)
            for other in self._fresh - {name}:  # once each: a backlog has thousands of transactions
                self._open[other].overtaken = True
            opened.overtaken = False
            if status == "END" and opened.expected is None:
                self._end(name, opened, counts, int(content.get("ts_ms") or 0))
            self._fresh = {name} if opened.expected is None else set()

    def _end(self, name: str, opened: _Transaction, counts: Mapping[str, int], committed_ms: int) -> None:
        opened.expected = {t: n for t, n in counts.items() if t in self._captured}
        opened.committed_ms = committed_ms
        self._ended.append(name)

    def _opened(self, name: str) -> _Transaction:
        if name not in self._open:
            self._open[name] = _Transaction(self._clock())
            self._fresh.add(name)
        return self._open[name]

    def _complete(self, whole: Callable[[str, str, int], bool]) -> None:
        """Close complete transactions in commit order, up to the first that is not."""
        places = {name: place for place, name in enumerate(self._ended)}
        covered = {t: max((places.get(n, -1) for n in ns), default=-1) for t, ns in self._covered.items()}
        silent = self._clock() - self._arrived >= PATIENCE
        closed = 0
        for place, name in enumerate(self._ended):
            opened = self._open[name]
            missing = [
                topic
                for topic, needs in (opened.expected or {}).items()
                if place > covered.get(topic, -1) and not whole(name, topic, needs)
            ]
            if missing and not silent:
                break
            if missing:
                log.warning("transaction %s: gave up waiting for events of %s", name, ", ".join(missing))
            self.complete_ms = max(self.complete_ms, opened.committed_ms)
            self._close(name)
            closed += 1
        del self._ended[:closed]
        for names in self._covered.values():  # what is not announced yet still counts
            names.difference_update([name for name in names if places.get(name, closed) < closed])
        late = self._clock() - PATIENCE
        for name in [n for n, o in self._open.items() if o.expected is None]:
            if silent or (self._open[name].overtaken and self._open[name].since <= late):
                # A change of a table's columns has no END, and no events that would wait for it.
                level = logging.WARNING if name in self._with_events else logging.DEBUG
                log.log(level, "transaction %s: gave up waiting for its end", name)
                self._close(name)

    def _close(self, name: str) -> None:
        del self._open[name]
        self._fresh.discard(name)
        self._done[name] = None
        if len(self._done) > REMEMBERED:
            self._done.popitem(last=False)


def divide(events: Iterable[Event], waiting: Collection[str]) -> tuple[list[Event], list[Event]]:
    """Events to apply and events to hold back, the order of each partition kept: what comes after a
    waiting event waits too."""
    ready: list[Event] = []
    held: list[Event] = []
    blocked: set[tuple[str, int]] = set()
    for event in events:
        place = (event.topic, event.partition)
        if place in blocked or event.transaction in waiting:
            blocked.add(place)
            held.append(event)
        else:
            ready.append(event)
    return ready, held
