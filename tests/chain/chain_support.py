"""What chain tests share: waiting for conditions, and services by their addresses, however they run."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, TopicPartition

from headrace.settings import Settings
from headrace.sources.stream.broker import Broker

T = TypeVar("T")
STILL_SECONDS = 180.0


def eventually(what: str, condition: Callable[[], T]) -> T:
    """The condition's first true answer. Exceptions count as not yet.

    It fails when what the condition answers, or raises, has been the same for `STILL_SECONDS`: what moves
    gets the time that it needs on a busy machine, up to the test's own limit.
    """
    seen, since = "", time.monotonic()
    while True:
        try:
            if answer := condition():
                return answer
            last = repr(answer)
        except Exception as error:
            last = repr(error)
        if last != seen:
            seen, since = last, time.monotonic()
        elif time.monotonic() - since > STILL_SECONDS:
            raise AssertionError(f"{what}: nothing has moved for {STILL_SECONDS:.0f} s; last: {last}")
        time.sleep(0.25)  # to be asked takes a warehouse server 20 ms


@dataclass(frozen=True)
class Services:
    """A source, a broker and a Connect worker. Connector files name the source by placeholders."""

    dsn: str
    broker: Broker
    connect_url: str


def services_of(settings: Settings) -> dict[str, Any]:
    """Settings of another stack that uses this one's services, as services of its own."""
    security = Broker.of(settings).security
    return {
        "postgres_url": settings.postgres_dsn(),
        "kafka_bootstrap_servers": settings.kafka_bootstrap,
        "kafka_security_protocol": security.protocol,
        "kafka_sasl_mechanism": security.mechanism,
        "kafka_sasl_username": security.username,
        "kafka_sasl_password": security.password,
        "connect_url": settings.connect_rest,
    }


@dataclass(frozen=True)
class Event:
    """One message of a topic; `value` is None for a tombstone, `key` for a truncation."""

    offset: int
    key: Any
    value: dict[str, Any] | None

    @property
    def op(self) -> str | None:
        return self.value["op"] if self.value else None


@contextmanager
def reader(broker: Broker, topic: str) -> Iterator[Callable[[], list[Event]]]:
    """A function that answers every event of the topic's one partition so far."""
    consumer = Consumer({**broker.client(), "group.id": "chain-tests"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    events: list[Event] = []

    def read() -> list[Event]:
        for message in consumer.consume(num_messages=500, timeout=0.2):
            if message.error() is None:
                key, value = (json.loads(part) if part else None for part in (message.key(), message.value()))
                events.append(Event(message.offset(), key, value))
            elif not message.error().retriable() and message.error().code() != KafkaError._TRANSPORT:
                raise AssertionError(message.error())
        return events

    try:
        yield read
    finally:
        consumer.close()
