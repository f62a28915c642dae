"""Short ranges of real topics: exactly the messages of a range, whatever lies between their offsets."""

from __future__ import annotations

import json
import os
import signal
import threading
import uuid
from collections.abc import Iterator
from contextlib import closing

import pytest
from chain_support import eventually
from confluent_kafka import Consumer, Message, Producer
from confluent_kafka.admin import AdminClient

from headrace.engine.ingest.boundary import Boundaries
from headrace.errors import TransientError
from headrace.services.stack import Stack
from headrace.sources.stream import messages as module
from headrace.sources.stream.broker import Broker
from headrace.sources.stream.messages import Messages
from headrace.sources.stream.topics import Topics
from headrace.sources.stream.transactions import Last
from headrace.store.record.frontier import Offsets


@pytest.fixture
def broker(stack: Stack) -> Broker:
    return Broker.of(stack.settings)


@pytest.fixture
def topics(broker: Broker) -> Iterator[Topics]:
    with closing(Topics.of(broker)) as found:
        yield found


@pytest.fixture
def consumer(broker: Broker) -> Iterator[Messages]:
    with closing(Messages(broker)) as found:
        yield found


@pytest.fixture
def names(topics: Topics) -> list[str]:
    """Two topics, empty."""
    found = [f"messages-{uuid.uuid4().hex}" for _ in range(2)]
    topics.ensure(found)
    eventually("leaders of new topics", lambda: topics.ends(found))
    return found


def send(
    broker: Broker, topic: str, values: list[bytes | None], *, commit: bool | None = None, at: int = 0
) -> None:
    """Args:
    commit: in a transaction, which ends so; each leaves an offset without a message.
    at: when they are said to be sent, milliseconds since 1970; 0: now.
    """
    config = broker.client()
    if commit is not None:
        config["transactional.id"] = uuid.uuid4().hex
    producer = Producer(config)
    if commit is not None:
        producer.init_transactions(30)
        producer.begin_transaction()
    for number, value in enumerate(values):
        producer.produce(topic, key=str(number).encode(), value=value, timestamp=at)
    producer.flush(30)
    if commit is not None:
        (producer.commit_transaction if commit else producer.abort_transaction)(30)


def values(consumer: Messages, start: Offsets, end: Offsets) -> list[bytes | None]:
    found: list[bytes | None] = consumer.read(start, end).column("value").to_pylist()
    return found


def test_consecutive_ranges_give_each_message_once(
    broker: Broker, topics: Topics, names: list[str], consumer: Messages
) -> None:
    seen: list[bytes | None] = []
    cut = topics.ends(names)
    sent = [f"{i}".encode() for i in range(40)]
    for first in range(0, 40, 10):
        send(broker, names[0], list(sent[first : first + 10]))
        end = topics.ends(names)
        middle = {names[0]: {0: end[names[0]][0] - 3}, names[1]: end[names[1]]}
        seen += values(consumer, cut, middle)  # what the client has read beyond is kept
        seen += values(consumer, middle, end)
        cut = end
    assert seen == sent
    assert values(consumer, cut, cut) == []


def test_a_range_may_be_read_again_and_others_left_out(
    broker: Broker, topics: Topics, names: list[str], consumer: Messages
) -> None:
    send(broker, names[0], [b"a", b"b", None, b"d"])
    end = topics.ends(names)
    whole = consumer.read({}, end)
    assert whole.column("value").to_pylist() == [b"a", b"b", None, b"d"]
    assert whole.column("key").to_pylist() == [b"0", b"1", b"2", b"3"]
    assert whole.column("offset").to_pylist() == [0, 1, 2, 3]
    assert set(whole.column("topic").to_pylist()) == {names[0]}
    one = {names[0]: {0: 1}, names[1]: {0: 0}}, {names[0]: {0: 2}, names[1]: {0: 0}}
    assert values(consumer, *one) == [b"b"]
    assert values(consumer, *one) == [b"b"]


def test_offsets_without_a_message_end_a_range_too(
    broker: Broker, topics: Topics, names: list[str], consumer: Messages
) -> None:
    """A transaction's marker is the last offset; what it aborted is there all the same, as for Spark."""
    cut: Offsets = {}
    seen: list[bytes | None] = []
    for value, commit, after in ((b"in", True, 2), (b"aborted", False, 4), (b"again", True, 6)):
        send(broker, names[0], [value], commit=commit)
        eventually("the transaction's marker", lambda after=after: topics.ends(names)[names[0]][0] == after)
        end = topics.ends(names)
        seen += values(consumer, cut, end)
        cut = end
    assert seen == [b"in", b"aborted", b"again"]


def test_messages_that_come_while_it_waits_belong_to_the_next_range(
    broker: Broker, topics: Topics, names: list[str], consumer: Messages
) -> None:
    sent = [f"{i}".encode() for i in range(2000)]
    writer = threading.Thread(target=send, args=(broker, names[1], list(sent)))
    writer.start()
    cut: Offsets = {}
    seen: list[bytes | None] = []
    while len(seen) < len(sent):
        end = topics.ends(names)
        seen += values(consumer, cut, end)
        cut = end
    writer.join()
    assert seen == sent


def test_a_broker_that_does_not_answer_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMEOUT_SECONDS", 1.0)
    with (
        closing(Messages(Broker("127.0.0.1:9"))) as nobody,
        pytest.raises(TransientError, match=r"'gone', 0.*status"),
    ):
        nobody.read({}, {"gone": {0: 1}})


def test_a_range_that_kafka_does_not_hold_is_said(names: list[str], consumer: Messages) -> None:
    with pytest.raises(TransientError, match=r"Kafka: .*headrace status"):
        consumer.read({names[0]: {0: 90}}, {names[0]: {0: 100}})


def test_where_a_topic_is_at_a_moment(broker: Broker, topics: Topics, names: list[str]) -> None:
    """To the message, in every topic that is asked about; at its end, where all are older."""
    send(broker, names[0], [b"a", b"b"], at=1_000)
    send(broker, names[0], [b"c"], at=2_000)
    bounds = topics.bounds(names)
    offsets = {moment: topics.since(bounds, moment) for moment in (-5, 1_000, 1_001, 2_001)}
    assert {moment: found[names[0]] for moment, found in offsets.items()} == {
        -5: {0: 0}, 1_000: {0: 0}, 1_001: {0: 2}, 2_001: {0: 3},
    }  # fmt: skip
    assert all(found[names[1]] == {0: 0} for found in offsets.values())
    assert topics.since({}, 1_000) == {}


def test_where_transactions_lie_is_found_by_a_few_reads(
    broker: Broker, topics: Topics, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Transactions of 7 events, some with a tombstone behind them, and messages that are no events."""
    sent: list[bytes | None] = []
    for number in range(3000):
        about = {"id": f"{number // 7}:{number}", "data_collection_order": 1 + number % 7}
        event = {"op": "u", "source": {"ts_ms": number}, "transaction": about}
        sent += [json.dumps(event).encode(), *([None] * (number % 5 == 0)), *([b"{"] * (number % 100 == 0))]
    send(broker, names[0], sent)
    end = topics.ends(names)[names[0]][0]
    reads: list[int] = []
    read = Messages.read
    monkeypatch.setattr(Messages, "read", lambda *args: reads.append(1) or read(*args))
    with closing(Boundaries(broker)) as found:
        assert found.last(names[0], 0, end) == Last("428", 4, 2999)
        assert found.last(names[0], end, end) is None
        assert found.first(names[0], 1, end) == Last("0", 2, 1)  # after a message that is no event
        assert found.first(names[0], end, end) is None
        for complete in (-1, 0, 3, 200, 400, 426, 427):
            reads.clear()
            at = found.through(names[0], 0, end, lambda e, n=complete: int(e.transaction or 0) <= n)
            values = [json.loads(v) for v in sent[:at] if v not in (None, b"{")]
            assert len(values) == 7 * (complete + 1)
            assert len(reads) < 16


def test_a_topic_that_was_made_anew_is_read_by_the_same_client(
    stack: Stack, topics: Topics, names: list[str], consumer: Messages
) -> None:
    """Its leaders are counted from 0 again: to a client that saw more, what it hears of it is old."""
    broker, anew = Broker.of(stack.settings), names[0]
    admin = AdminClient(broker.client())

    def read(content: list[bytes | None]) -> None:
        send(broker, anew, content)
        assert values(consumer, {anew: {0: 0}}, topics.ends([anew])) == content

    def empty() -> bool:
        topics.ensure([anew])
        return topics.ends([anew]) == {anew: {0: 0}}

    read([b"a", b"b", b"c"])
    pid = stack.supervisor.process("kafka").pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    eventually("the broker is back", lambda: topics.ends([anew]) == {anew: {0: 3}})
    assert values(consumer, {}, {anew: {0: 3}}) == [b"a", b"b", b"c"]
    admin.delete_topics([anew])[anew].result(timeout=30)
    eventually("it is there again", empty)
    read([b"d", b"e"])


def test_a_client_that_hears_nothing_is_replaced(
    broker: Broker, topics: Topics, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one topic, while others go on."""
    other: list[Message] = []

    class Deaf(Consumer):
        def poll(self, *_: object) -> Message | None:
            if (message := super().poll(0.05)) is None or message.topic() == names[0]:
                return None
            other.append(message)
            monkeypatch.setattr(module, "DEAF_AFTER", 0.1)
            return message

        def consume(self, *_: object) -> list[Message]:
            return []

    made: list[Consumer] = []

    def connect(config: dict[str, object]) -> Consumer:
        monkeypatch.setattr(module, "DEAF_AFTER", patience)  # on a busy machine a new one needs its time
        made.append((Consumer if made else Deaf)(config))
        return made[-1]

    patience = module.DEAF_AFTER
    monkeypatch.setattr(module, "Consumer", connect)
    monkeypatch.setattr(module, "CHECK_EVERY", 0.05)
    send(broker, names[0], [b"a", b"b"])
    send(broker, names[1], [f"{n}".encode() for n in range(40)])
    with closing(Messages(broker)) as consumer:
        found = values(consumer, {}, topics.ends(names))
    assert sorted(found) == sorted([b"a", b"b", *(f"{n}".encode() for n in range(40))]) and other
