"""Reading short ranges of Kafka topics at once, by a consumer that reads ahead.

Spark's Kafka source starts tasks and plans anew for every batch: some hundred milliseconds for few messages.
Here they mostly wait in memory before they are asked for.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress

import pyarrow as pa
from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, Message, TopicPartition

from headrace.errors import TransientError
from headrace.sources.stream.envelope import Event
from headrace.store.record.frontier import Offsets

TIMEOUT_SECONDS = 60.0
CHECK_EVERY, CHECK_SECONDS = 2.0, 2.0
"""Pause before the broker is asked whether it has what is waited for; how long it may take to say."""

AHEAD_KBYTES = 8_192
"""Bytes of each partition that the client holds before they are asked for."""

AT_ONCE = 1_000
"""Messages taken from the client in one call."""

Place = tuple[str, int]
"""Topic and partition."""

RAW = (
    ("topic", "string"), ("partition", "int"), ("offset", "bigint"), ("key", "binary"), ("value", "binary"),
)  # fmt: skip
"""Columns of messages, with Spark's types."""

_ARROW = pa.schema([
    ("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("key", pa.binary()),
    ("value", pa.binary()),
])  # fmt: skip


class Messages:
    """A consumer of some topics. Not thread-safe; it joins no group and commits nothing.

    Args:
        ahead_kbytes: what it holds of each partition before it is asked for.
    """

    def __init__(self, bootstrap: str, ahead_kbytes: int = AHEAD_KBYTES) -> None:
        self._consumer = Consumer({
            "bootstrap.servers": bootstrap,
            "group.id": "headrace-flow",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_uncommitted",  # as Spark's source reads, and finds the ends
            "auto.offset.reset": "error",
            "queued.max.messages.kbytes": ahead_kbytes,
            "fetch.queue.backoff.ms": 5,  # a full queue is emptied in no time; the default is a second
            "log_level": 0,
        })  # fmt: skip
        self._known: set[str] = set()  # topics whose leaders the client knows
        self._cut: dict[Place, int] = {}  # where the last read ended
        self._reached: dict[Place, int] = {}  # all that there is before it was returned, or is in `_ahead`
        self._ahead: dict[Place, deque[Message]] = {}

    def close(self) -> None:
        self._consumer.close()

    def rest(self) -> None:
        """Read nothing ahead until it is asked for something again."""
        self._consumer.unassign()
        self._cut, self._reached, self._ahead = {}, {}, {}

    def read(self, start: Offsets, end: Offsets) -> pa.Table:
        """The messages between two cuts: columns as `RAW`, ordered by offset in each partition.

        Args:
            start, end: the same partitions; a range that begins where the last one ended costs no request.
        Raises:
            TransientError: Kafka does not answer, or no longer has them.
        """
        wanted = {(t, p): offset for t, parts in end.items() for p, offset in parts.items()}
        begin = {place: start.get(place[0], {}).get(place[1], 0) for place in wanted}
        if begin != self._cut:
            self._assign(begin)
        found: list[Message] = []
        waiting = {place for place in wanted if self._take(place, wanted[place], found)}
        deadline, due = time.monotonic() + TIMEOUT_SECONDS, time.monotonic() + CHECK_EVERY
        while waiting:
            message = self._consumer.poll(1.0)
            if message is not None:
                places = {self._accept(m) for m in (message, *self._consumer.consume(AT_ONCE, 0))}
                waiting -= {p for p in places & waiting if not self._take(p, wanted[p], found)}
            if waiting and time.monotonic() > due:  # what was deleted sends no end
                for place in waiting:
                    self._check_there(place, wanted[place])
                due = time.monotonic() + CHECK_EVERY
            if waiting and time.monotonic() > deadline:
                raise TransientError(f"Kafka did not deliver {sorted(waiting)}. Next: `headrace status`")
        self._cut = wanted
        return _table(found)

    def there(self) -> Offsets:
        """The ends of the partitions that it reads, as the broker said with what it last delivered.

        Nothing is requested, and another thread may ask: the client fetches what comes by itself. Of a
        partition that it has heard nothing of, the end is where reading stands.
        """
        found: Offsets = {}
        for (topic, partition), at in self._cut.items():
            _, high = self._consumer.get_watermark_offsets(TopicPartition(topic, partition), cached=True)
            found.setdefault(topic, {})[partition] = max(at, high)
        return found

    def _check_there(self, place: Place, end: int) -> None:
        """Raises TransientError where the partition has not got what is waited for, as after a deletion."""
        try:
            low, high = self._consumer.get_watermark_offsets(TopicPartition(*place), timeout=CHECK_SECONDS)
        except KafkaException:
            return  # it does not answer now; who waits does so until the time is over
        if low > self._reached[place] or high < end:
            raise TransientError(
                f"topic `{place[0]}` holds offsets {low} to {high} and not {self._reached[place]} to {end}. "
                "Next: `headrace status`"
            )

    def _assign(self, begin: dict[Place, int]) -> None:
        # The client itself asks for a new topic's leader at its next full second. A broker that does not
        # answer now is waited for by whoever reads.
        with suppress(KafkaException):
            for topic in {topic for topic, _ in begin} - self._known:
                self._consumer.list_topics(topic, timeout=CHECK_SECONDS)
                self._known.add(topic)
        try:
            self._consumer.assign([TopicPartition(t, p, offset) for (t, p), offset in begin.items()])
        except KafkaException as error:
            raise TransientError(f"Kafka does not answer: {error}. Next: `headrace status`") from error
        self._reached = dict(begin)
        self._ahead = {place: deque() for place in begin}

    def _accept(self, message: Message) -> Place:
        """Keep what the client delivered: a message, or that a partition has none before an offset."""
        place = (str(message.topic()), int(message.partition() or 0))
        error = message.error()
        if error is None:
            self._ahead[place].append(message)
            self._reached[place] = _offset(message) + 1
        elif error.code() == KafkaError._PARTITION_EOF:
            # Offsets without a message, such as those of transaction markers, are passed over in silence.
            self._reached[place] = max(self._reached[place], _offset(message))
        elif not error.retriable() and error.code() not in _PASSING:
            raise TransientError(f"Kafka: {error.str()}. Next: `headrace status`")
        return place

    def _take(self, place: Place, end: int, found: list[Message]) -> bool:
        """Move what lies before `end` to `found`. Returns whether more is to come."""
        ahead = self._ahead[place]
        while ahead and _offset(ahead[0]) < end:
            found.append(ahead.popleft())
        return self._reached[place] < end


def read_once(bootstrap: str, start: Offsets, end: Offsets) -> pa.Table:
    """As `Messages.read`, of one range and no more."""
    with closing(Messages(bootstrap)) as consumer:
        return consumer.read(start, end)


def of_events(events: Iterable[Event]) -> pa.Table:
    """The messages that these events were, as `Messages.read` has them."""
    rows = [(e.topic, e.partition, e.offset, e.raw_key or _encoded(e.key), e.value) for e in events]
    return raw(rows)


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


_PASSING = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE, KafkaError._TIMED_OUT)


def _offset(message: Message) -> int:
    offset = message.offset()
    return OFFSET_INVALID if offset is None else offset


def _table(messages: Iterable[Message]) -> pa.Table:
    return raw([(m.topic(), m.partition(), m.offset(), m.key(), m.value()) for m in messages])


def raw(rows: Sequence[tuple[object, ...]]) -> pa.Table:
    """Messages with these values, columns as `RAW`."""
    columns = list(zip(*rows, strict=True)) or [()] * len(_ARROW)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, _ARROW, strict=True)], schema=_ARROW)
