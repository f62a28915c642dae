"""What is asked of Kafka about topics that were created just now."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from headrace.errors import TransientError
from headrace.sources import topics as module
from headrace.sources.topics import Topics


class Broker:
    """Answers for the one partition of the topic `t`, after some errors."""

    def __init__(self, *errors: int) -> None:
        self.errors = list(errors)

    def list_topics(self, timeout: float) -> Any:
        return SimpleNamespace(topics={"t": SimpleNamespace(partitions={0: None})})

    def get_watermark_offsets(self, partition: object, timeout: float) -> tuple[int, int]:
        if self.errors:
            raise KafkaException(KafkaError(self.errors.pop(0)))
        return 0, 7


@pytest.fixture
def topics() -> Iterator[Any]:
    with closing(Topics("127.0.0.1:1")) as made:
        yield made


def test_the_leader_of_a_new_partition_is_waited_for(topics: Any) -> None:
    topics._admin = broker = Broker(KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION)
    topics._consumer, closed = broker, topics._consumer
    assert topics.ends(["t"]) == {"t": {0: 7}}
    assert topics.bounds(["t", "none"]) == {"t": {0: (0, 7)}, "none": {}}
    topics._consumer = closed


def test_neither_for_ever_nor_after_another_error(topics: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TIMEOUT", 0.2)
    closed = topics._consumer
    for broker in (Broker(*[KafkaError.LEADER_NOT_AVAILABLE] * 100), Broker(KafkaError._TRANSPORT)):
        topics._admin = topics._consumer = broker
        with pytest.raises(TransientError, match="headrace status"):
            topics.ends(["t"])
    assert broker.errors == []
    topics._consumer = closed
