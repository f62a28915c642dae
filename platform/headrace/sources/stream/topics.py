"""Kafka topics of a source: they exist, what they hold, and whether a frontier is still readable."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.errors import TerminalError, TransientError
from headrace.sources.stream.broker import Broker
from headrace.store.record.frontier import Offsets

log = logging.getLogger(__name__)

T = TypeVar("T")
TIMEOUT = 15.0
Bounds = dict[str, dict[int, tuple[int, int]]]
"""Of every partition of some topics: the first offset that it still holds, and the next one to come."""

ASKED_AT_ONCE = 8
"""Partitions: each answer takes two requests and waits for the broker."""

_RETRY_SECONDS = 0.1
_NEW = {KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE}
"""What a broker says of a partition that was created just now."""

_NOT_ALLOWED = {KafkaError.POLICY_VIOLATION, KafkaError.TOPIC_AUTHORIZATION_FAILED}
"""Of a topic that is compacted and not cut, and of a user who may not."""

STALE = {
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.UNKNOWN_TOPIC_ID,
    KafkaError.INCONSISTENT_TOPIC_ID,
}
"""What a broker says to a client that knows a topic from before it was deleted and made anew. Leaders count
from 0 again then, and the client holds the lower number for the older one, for as long as it lives."""


class Topics:
    """Metadata of one Kafka cluster. Thread-safe for the calls made here.

    Args:
        admin: creates and lists topics.
        connect: makes a client that tells their ends.
    """

    def __init__(self, admin: AdminClient, connect: Callable[[], Consumer]) -> None:
        self._admin = admin
        self._connect = connect
        self._consumer = connect()
        self._pool = ThreadPoolExecutor(ASKED_AT_ONCE, "topics")

    @classmethod
    def of(cls, broker: Broker) -> Topics:
        """Those of this cluster."""
        metadata = {"group.id": "headrace-metadata", "enable.auto.commit": False}
        return cls(AdminClient(broker.client()), lambda: Consumer({**broker.client(), **metadata}))

    def close(self) -> None:
        self._pool.shutdown()
        self._consumer.close()

    def ensure(self, topics: Iterable[str]) -> None:
        """Create the topics that are missing, with one partition: the order of a table's events is one.

        How many replicas they have is the cluster's default.
        """
        try:
            known = self._admin.list_topics(timeout=TIMEOUT).topics
            missing = [t for t in topics if t not in known]
            created = self._admin.create_topics([NewTopic(t, 1, -1) for t in missing]) if missing else {}
            for future in created.values():
                future.result(timeout=TIMEOUT)
        except KafkaException as error:
            if "TOPIC_ALREADY_EXISTS" not in str(error):
                raise TransientError(f"Kafka does not answer: {error}. Next: `headrace status`") from error

    def ends(self, topics: Iterable[str]) -> Offsets:
        """The next offset of every partition."""
        return {topic: ends(parts) for topic, parts in self.bounds(topics).items()}

    def bounds(self, topics: Iterable[str]) -> Bounds:
        """What every partition holds."""
        try:
            known = self._admin.list_topics(timeout=TIMEOUT).topics
            places = {t: list(known[t].partitions) if t in known else [] for t in topics}
            asked = [TopicPartition(topic, p) for topic, parts in places.items() for p in parts]
            found = self._pool.map(self._watermarks, asked)
            marks = {topic: {p: next(found) for p in parts} for topic, parts in places.items()}
        except KafkaException as error:
            raise TransientError(f"Kafka does not answer: {error}. Next: `headrace status`") from error
        return marks

    def since(self, bounds: Bounds, moment_ms: int) -> Offsets:
        """The offset of the first message of every partition that is not older, or its end.

        Args:
            bounds: of the topics that are asked about.
            moment_ms: milliseconds since 1970.
        """
        asked = [TopicPartition(t, p, max(0, moment_ms)) for t, parts in bounds.items() for p in parts]
        try:
            found = self._offsets_for_times(asked) if asked else []
        except KafkaException as error:
            raise TransientError(f"Kafka does not answer: {error}. Next: `headrace status`") from error
        at = {(place.topic, place.partition): place.offset for place in found}
        return {
            topic: {p: at[topic, p] if at[topic, p] >= 0 else high for p, (_, high) in parts.items()}
            for topic, parts in bounds.items()
        }

    def ids(self, topics: Iterable[str]) -> dict[str, str]:
        """Kafka's ids of those that there are: one that is made anew under its name has another."""
        try:
            known = self._admin.list_topics(timeout=TIMEOUT).topics
            asked = self._admin.describe_topics(TopicCollection([t for t in set(topics) if t in known]))
            found = {topic: future.result(timeout=TIMEOUT).topic_id for topic, future in asked.items()}
        except KafkaException as error:
            raise TransientError(f"Kafka does not answer: {error}. Next: `headrace status`") from error
        return {topic: str(uuid) for topic, uuid in found.items()}

    def delete_before(self, cut: Offsets) -> None:
        """Let Kafka forget the messages before a cut of some topics: they can be read no more.

        Raises:
            TerminalError: the topic's policy or the user's rights do not allow it.
            TransientError: Kafka does not answer.
        """
        bounds = self.bounds(cut)
        places = [
            TopicPartition(topic, partition, min(offset, bounds[topic][partition][1]))
            for topic, parts in cut.items()
            for partition, offset in parts.items()
            if offset > bounds[topic][partition][0]
        ]
        try:
            for future in self._admin.delete_records(places, request_timeout=TIMEOUT).values():
                future.result(timeout=TIMEOUT)
        except KafkaException as error:
            if error.args[0].code() in _NOT_ALLOWED:
                raise TerminalError(f"Kafka keeps the messages of {', '.join(cut)}: {error}") from error
            raise TransientError(f"Kafka does not answer: {error}. Next: `headrace status`") from error

    def _watermarks(self, partition: TopicPartition) -> tuple[int, int]:
        low, high = self._ask(lambda client: client.get_watermark_offsets(partition, timeout=TIMEOUT))
        return low, high

    def _offsets_for_times(self, asked: list[TopicPartition]) -> list[TopicPartition]:
        def offsets(client: Consumer) -> list[TopicPartition]:
            found = client.offsets_for_times(asked, timeout=TIMEOUT)
            if failed := next((place.error for place in found if place.error is not None), None):
                raise KafkaException(failed)
            return found

        return self._ask(offsets)

    def _ask(self, question: Callable[[Consumer], T]) -> T:
        """The answer, by another client where this one knows a topic from before it was made anew."""
        deadline = time.monotonic() + TIMEOUT
        while True:
            try:
                return question(self._consumer)
            except KafkaException as error:
                code = error.args[0].code()
                if code not in _NEW | STALE or time.monotonic() > deadline:
                    raise
                if code in STALE:
                    log.warning("%s: another client is tried", error)
                    self._consumer = self._connect()  # the other one goes with the last call on it
            time.sleep(_RETRY_SECONDS)


def ends(parts: Mapping[int, tuple[int, int]]) -> dict[int, int]:
    """The next offset of every partition of a topic."""
    return {partition: high for partition, (_, high) in parts.items()}


def lost(frontier: Offsets, bounds: Bounds) -> dict[str, str]:
    """Topics that no longer have what comes after a frontier, each with what is wrong."""
    found: dict[str, str] = {}
    for topic, parts in bounds.items():
        for partition, (low, high) in parts.items():
            offset = frontier.get(topic, {}).get(partition, 0)
            if offset > high or offset < low:
                found[topic] = (
                    f"topic `{topic}` holds offsets {low} to {high}, the table needs {offset}: events are "
                    "gone or the topic was made anew"
                )
    return found


def following(frontier: Offsets, bounds: Bounds) -> Offsets:
    """Where reading goes on after a frontier; at what there is first, where it has nothing of a partition."""
    return {
        topic: {p: max(frontier.get(topic, {}).get(p, 0), low) for p, (low, _) in parts.items()}
        for topic, parts in bounds.items()
    }
