"""Reading short ranges of Kafka topics at once, by a consumer that reads ahead.

Spark's Kafka source starts tasks and plans anew for every batch: some hundred milliseconds for few messages.
Here they mostly wait in memory before they are asked for.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress

import pyarrow as pa
from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, Message, TopicPartition

from headrace.errors import HeadraceError, TransientError
from headrace.sources.stream.avro import framed
from headrace.sources.stream.broker import Broker
from headrace.sources.stream.envelope import Event
from headrace.sources.stream.formats import Formats
from headrace.sources.stream.topics import STALE
from headrace.store.record.frontier import Offsets

log = logging.getLogger(__name__)

TIMEOUT_SECONDS = 60.0
CHECK_EVERY, CHECK_SECONDS = 2.0, 2.0
"""Pause before the broker is asked whether it has what is waited for; how long it may take to say."""

DEAF_AFTER = 8.0
"""Seconds without an expected message after which another client is tried."""

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

    def __init__(self, broker: Broker, ahead_kbytes: int = AHEAD_KBYTES) -> None:
        self._formats = Formats.of(broker.registry)
        self._broker, self._ahead_kbytes = broker, ahead_kbytes
        self._consumer = self._connect()
        self._known: set[str] = set()  # topics whose leaders the client knows
        self._cut: dict[Place, int] = {}  # where the last read ended
        self._reached: dict[Place, int] = {}  # all that there is before it was returned, or is in `_ahead`
        self._ahead: dict[Place, deque[Message]] = {}

    def _connect(self) -> Consumer:
        return Consumer({
            **self._broker.client(),
            "group.id": "headrace-flow",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_uncommitted",  # as Spark's source reads, and finds the ends
            "auto.offset.reset": "error",
            "queued.max.messages.kbytes": self._ahead_kbytes,
            "fetch.queue.backoff.ms": 5,  # a full queue is emptied in no time; the default is a second
        })  # fmt: skip

    def close(self) -> None:
        self._consumer.close()

    def rest(self) -> None:
        """Read nothing ahead until it is asked for something again."""
        self._consumer.unassign()
        self._cut, self._reached, self._ahead = {}, {}, {}

    def read(self, start: Offsets, end: Offsets) -> pa.Table:
        """The messages between two cuts as plain JSON, columns as `RAW`, by offset in each partition.

        Args:
            start, end: the same partitions; a range that begins where the last one ended costs no request.
        Raises:
            TransientError: Kafka does not answer, or no longer has them.
            HeadraceError: of the schema registry, see `Formats.plain`; the range can be read again.
        """
        found = self.read_as_is(start, end)
        try:
            return self._formats.plain(found)
        except HeadraceError:
            self._cut = {}
            raise

    def read_as_is(self, start: Offsets, end: Offsets) -> pa.Table:
        """As `read`, with the bytes that Kafka has."""
        wanted = {(t, p): offset for t, parts in end.items() for p, offset in parts.items()}
        begin = {place: start.get(place[0], {}).get(place[1], 0) for place in wanted}
        if begin != self._cut:
            self._assign(begin)
        found: list[Message] = []
        waiting = {place for place in wanted if self._take(place, wanted[place], found)}
        deadline, due = time.monotonic() + TIMEOUT_SECONDS, time.monotonic() + CHECK_EVERY
        stood, deaf = {place: self._reached[place] for place in waiting}, time.monotonic() + DEAF_AFTER
        while waiting:
            message = self._consumer.poll(1.0)
            if message is not None:
                places = {self._accept(m) for m in (message, *self._consumer.consume(AT_ONCE, 0))}
                waiting -= {p for p in places & waiting if not self._take(p, wanted[p], found)}
            if waiting and time.monotonic() > due:  # what was deleted sends no end
                stale = any(self._check_there(place, wanted[place]) for place in waiting)
                if stood != (stands := {place: self._reached[place] for place in waiting}):
                    stood, deaf = stands, time.monotonic() + DEAF_AFTER
                elif stale or time.monotonic() > deaf:
                    self._connect_anew()
                    deaf = time.monotonic() + DEAF_AFTER
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
            try:
                _, high = self._consumer.get_watermark_offsets(TopicPartition(topic, partition), cached=True)
            except RuntimeError:  # closed a moment ago, for another one
                high = at
            found.setdefault(topic, {})[partition] = max(at, high)
        return found

    def _check_there(self, place: Place, end: int) -> bool:
        """Whether the client knows the topic from before it was made anew.

        Raises TransientError where the partition has not got what is waited for, as after a deletion.
        """
        try:
            low, high = self._consumer.get_watermark_offsets(TopicPartition(*place), timeout=CHECK_SECONDS)
        except KafkaException as error:
            # Else it does not answer now; who waits does so until the time is over.
            return error.args[0].code() in STALE
        if low > self._reached[place] or high < end:
            raise TransientError(
                f"topic `{place[0]}` holds offsets {low} to {high} and not {self._reached[place]} to {end}. "
                "Next: `headrace status`"
            )
        return False

    def _connect_anew(self) -> None:
        """For a client that hears nothing: it may know a topic from before it was made anew; see `topics`."""
        log.warning("nothing comes from Kafka of %s: another client is tried", sorted(self._reached))
        deaf, self._consumer = self._consumer, self._connect()
        deaf.close()
        self._known = set()
        ahead, reached = self._ahead, self._reached
        self._assign(reached)
        self._ahead = ahead

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


def read_once(broker: Broker, start: Offsets, end: Offsets) -> pa.Table:
    """As `Messages.read`, of one range and no more."""
    with closing(Messages(broker)) as consumer:
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
    return raw([(m.topic(), m.partition(), m.offset(), *_parts(m)) for m in messages])


def _parts(message: Message) -> tuple[bytes | None, bytes | None]:
    """Key and value."""
    key, value, headers = message.key(), message.value(), message.headers()
    if not headers:
        return key, value
    named = dict(headers)
    return framed("key", key, named), framed("value", value, named)


def raw(rows: Sequence[tuple[object, ...]]) -> pa.Table:
    """Messages with these values, columns as `RAW`."""
    columns = list(zip(*rows, strict=True)) or [()] * len(_ARROW)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, _ARROW, strict=True)], schema=_ARROW)
