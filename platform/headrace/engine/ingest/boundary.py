"""Where transactions lie in a topic: looked up by a few short reads, however long the topic is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import NamedTuple

from headrace.sources.stream.broker import Broker
from headrace.sources.stream.messages import Messages
from headrace.sources.stream.transactions import Last

CHUNK = 64
"""Messages of one read."""

AHEAD_KBYTES = 256
"""What the client fetches at once: most reads jump."""


class _Found(NamedTuple):
    offset: int
    event: Last


class Boundaries:
    """Of topics whose events are in the order of commits within each partition. Not thread-safe."""

    def __init__(self, broker: Broker) -> None:
        self._messages = Messages(broker, AHEAD_KBYTES)

    def rest(self) -> None:
        """Nothing is looked up for a while."""
        self._messages.rest()

    def close(self) -> None:
        self._messages.close()

    def last(self, topic: str, start: int, end: int, partition: int = 0) -> Last | None:
        """The last event between two offsets of a partition; None where there is none.

        Raises:
            TransientError: Kafka does not answer, or no longer has them.
        """
        found = next(self._backwards(topic, start, end, partition), None)
        return None if found is None else found.event

    def first(self, topic: str, start: int, end: int, partition: int = 0) -> Last | None:
        """The first event between two offsets of a partition; None where there is none.

        Raises:
            TransientError: as `last`.
        """
        chunks = ((low, min(low + CHUNK, end)) for low in range(start, end, CHUNK))
        found = (self._first(topic, low, high, partition) for low, high in chunks)
        return next((first.event for first in found if first is not None), None)

    def through(self, topic: str, start: int, end: int, done: Callable[[Last], bool]) -> int:
        """The offset after the last event between two offsets that is done; the first ones are, the last not.

        Of a topic with one partition.

        Args:
            done: whether an event may be applied.
        Raises:
            TransientError: as `last`.
        """
        low, high = start, max(start, end - CHUNK)
        if (found := self._last_done(topic, high, end, done)) is not None:
            return found
        while high - low > CHUNK:  # nothing from `high` on is done
            middle = (low + high) // 2
            first = self._first(topic, middle, min(middle + CHUNK, high))
            if first is not None and done(first.event):
                low = first.offset
            else:
                high = middle
        found = self._last_done(topic, low, min(high + CHUNK, end), done)
        return start if found is None else found

    def _last_done(self, topic: str, start: int, end: int, done: Callable[[Last], bool]) -> int | None:
        events = self._backwards(topic, start, end)
        return next((found.offset + 1 for found in events if done(found.event)), None)

    def _first(self, topic: str, start: int, end: int, partition: int = 0) -> _Found | None:
        return next(iter(reversed(list(self._backwards(topic, start, end, partition)))), None)

    def _backwards(self, topic: str, start: int, end: int, partition: int = 0) -> Iterator[_Found]:
        """Events from the last on; what is none is passed over."""
        high = end
        while high > start:
            low = max(start, high - CHUNK)
            rows = self._messages.read({topic: {partition: low}}, {topic: {partition: high}})
            columns = rows.column("offset").to_pylist(), rows.column("value").to_pylist()
            for offset, value in reversed(list(zip(*columns, strict=True))):
                if (event := _event(value)) is not None:
                    yield _Found(offset, event)
            high = low


def _event(value: bytes | None) -> Last | None:
    try:
        content = json.loads(value or b"")
        if "op" not in content:
            return None
        about, at = content.get("transaction"), int(content["source"].get("ts_ms") or 0)
        if about is None:
            return Last(None, source_ms=at)
        return Last(about["id"].partition(":")[0], int(about.get("data_collection_order") or 0), at)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
