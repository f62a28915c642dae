"""What is asked of Kafka about topics that were created just now."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from headrace.errors import TransientError
from headrace.sources.stream import topics as module
from headrace.sources.stream.topics import Topics, lost


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


def topics(broker: Broker) -> Topics:
    return Topics(cast("Any", broker), lambda: cast("Any", broker))


def test_a_client_that_knows_a_topic_from_before_it_was_made_anew_is_replaced() -> None:
    broker = Broker(KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_TOPIC_ID)
    clients = [cast("Any", broker) for _ in range(3)]
    assert Topics(cast("Any", broker), lambda: clients.pop()).ends(["t"]) == {"t": {0: 7}}
    assert clients == []


def test_the_leader_of_a_new_partition_is_waited_for() -> None:
    asked = topics(Broker(KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION))
    assert asked.ends(["t"]) == {"t": {0: 7}}
    assert asked.bounds(["t", "none"]) == {"t": {0: (0, 7)}, "none": {}}


def test_neither_for_ever_nor_after_another_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMEOUT", 0.2)
    for broker in (Broker(*[KafkaError.LEADER_NOT_AVAILABLE] * 100), Broker(KafkaError._TRANSPORT)):
        with pytest.raises(TransientError, match="headrace status"):
            topics(broker).ends(["t"])
    assert broker.errors == []


@pytest.mark.parametrize(
    ("frontier", "says"),
    [
        ({}, "the table needs 0"),  # nothing read yet: what was before is not to be had
        ({"t": {0: 3}}, None),
        ({"t": {0: 7}}, None),
        ({"t": {0: 2}}, "holds offsets 3 to 7, the table needs 2"),
        ({"t": {0: 8}}, "holds offsets 3 to 7, the table needs 8"),
    ],
)
def test_what_a_topic_lacks_of_what_comes_next(frontier: dict[str, dict[int, int]], says: str | None) -> None:
    found = lost(frontier, {"t": {0: (3, 7)}})
    assert found.keys() == ({"t"} if says else set())
    assert says is None or says in found["t"]
