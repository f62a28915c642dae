"""Which transactions of a source have come in whole, by Debezium's transaction topic.

Kafka has no order between topics, so a micro-batch may hold one table's part of a transaction and not yet
another's. Debezium announces each transaction (`provide.transaction.metadata`): BEGIN, and END with the
number of its events by table, in commit order. Events wait until every earlier transaction is complete.
"""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from headrace.sources.envelope import Event
from headrace.spec.connector import Connector

log = logging.getLogger(__name__)

PATIENCE = 30.0
"""Seconds that events wait for the rest of their transaction before they are applied without it."""


def transaction_topic(connector: Connector) -> str | None:
    """The connector's transaction topic, or None where it announces none."""
    if connector.config.get("provide.transaction.metadata", "false").lower() != "true":
        return None
    return f"{connector.name}.{connector.config.get('topic.transaction', 'transaction')}"


@dataclass
class _Transaction:
    since: float
    begun: bool = False  # BEGIN was read
    expected: dict[str, int] | None = None  # topic → events; None until END
    committed_ms: int = 0  # at the source; 0 where that does not count


class Transactions:
    """The open transactions of one source, as one flow has read them.

    Args:
        topic: the source's transaction topic.
        captured: the flow's topics of that source; events of other tables are not waited for.
        clock: seconds.

    After `reset` the next batch is taken as it is, but for transactions that begin in it: what it continues
    may have been read before. So may a part of any transaction that ends without having begun since.
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
        self.reset()

    @property
    def name(self) -> str:
        """That of the source."""
        return self._prefix

    def reset(self) -> None:
        """Forget everything: reading goes on elsewhere."""
        self._open: dict[str, _Transaction] = {}
        self._ended: list[str] = []
        self._free: set[str] = set()
        self._first = True

    def waiting(self, announced: Iterable[Event], events: Sequence[Event]) -> frozenset[str]:
        """The transactions whose events must wait.

        Args:
            announced: new messages of the transaction topic, in order.
            events: all events of the flow's topics that are not applied yet, new and waiting ones.
        """
        now = self._clock()
        for message in announced:
            self._announce(message, now)
        mine = [e for e in events if e.transaction is not None and e.topic in self._captured]
        if self._first:
            self._free |= {e.transaction for e in mine if e.transaction is not None} - set(self._open)
            self._first = False
        counts = Counter((e.transaction, e.topic) for e in mine)
        for transaction, _ in counts:
            if transaction is not None and transaction not in self._free:
                self._open.setdefault(transaction, _Transaction(now))
        self._complete(counts, now)
        return frozenset(self._open)

    def _announce(self, message: Event, now: float) -> None:
        try:
            content = json.loads(message.value or "")
            name, status = content["id"].partition(":")[0], content["status"]
            if status == "END":
                counts = {c["data_collection"]: c["event_count"] for c in content["data_collections"] or ()}
        except (ValueError, KeyError, TypeError):
            log.warning("%s, offset %s: no transaction event", message.topic, message.offset)
            return
        if name in self._free:
            return
        opened = self._open.setdefault(name, _Transaction(now))
        if status == "BEGIN":
            opened.begun = True
        elif status == "END" and not opened.begun:  # its topic is in order: it began before the reset
            del self._open[name]
            self._free.add(name)
        elif status == "END":
            topics = {f"{self._prefix}.{collection}": count for collection, count in counts.items()}
            opened.expected = {t: n for t, n in topics.items() if t in self._captured}
            # What the first batch continues is not known, so its transactions do not tell how far all are.
            opened.committed_ms = 0 if self._first else int(content.get("ts_ms") or 0)
            self._ended.append(name)

    def _complete(self, counts: Counter[tuple[str | None, str]], now: float) -> None:
        """Close complete transactions in commit order, up to the first that is not."""
        while self._ended:
            opened = self._open[self._ended[0]]
            missing = {
                t: n - counts[self._ended[0], t]
                for t, n in (opened.expected or {}).items()
                if counts[self._ended[0], t] < n
            }
            if missing and now - opened.since < PATIENCE:
                return
            if missing:
                log.warning("transaction %s: gave up waiting for events of %s", self._ended[0], missing)
            self.complete_ms = max(self.complete_ms, opened.committed_ms)
            del self._open[self._ended.pop(0)]
        for name in [n for n, o in self._open.items() if now - o.since >= PATIENCE and o.expected is None]:
            log.warning("transaction %s: gave up waiting for its end", name)
            del self._open[name]
            self._free.add(name)


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
