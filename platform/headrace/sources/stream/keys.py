"""The keys of messages: whether one is a certain key, and those that a topic has."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

from headrace.sources.stream.broker import Broker
from headrace.sources.stream.messages import Messages
from headrace.sources.stream.topics import Bounds

AT_ONCE = 20_000
"""Messages that are read together."""

PLAIN = ("tinyint", "smallint", "int", "bigint", "string", "boolean")
"""Spark's types whose values stand in a message's key as they are; others are numbers of their own units."""


def of_key(raw: bytes | None, values: Mapping[str, Any], types: Mapping[str, str]) -> bool | None:
    """Whether a message's key has these values; None where that cannot be told.

    Args:
        raw: plain JSON.
        types: Spark's, by column.
    """
    try:
        found = json.loads(raw) if raw is not None else None
    except ValueError:
        return None
    if not isinstance(found, dict) or any(column not in found for column in values):
        return None
    told = [column for column in values if types[column] in PLAIN]
    if any(_text(found[column]) != _text(values[column]) for column in told):
        return False
    return True if len(told) == len(values) else None


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def topic_keys(broker: Broker, bounds: Bounds) -> Iterator[tuple[int, int, bytes]]:
    """Partition, offset and key, as plain JSON, of every message with a key.

    Args:
        bounds: of one topic.
    Raises:
        TransientError: Kafka does not answer.
    """
    with closing(Messages(broker)) as consumer:
        for topic, parts in bounds.items():
            for partition, (low, high) in parts.items():
                for begin in range(low, high, AT_ONCE):
                    end = min(begin + AT_ONCE, high)
                    found = consumer.read({topic: {partition: begin}}, {topic: {partition: end}})
                    for row in found.select(["offset", "key"]).to_pylist():
                        if row["key"] is not None:
                            yield partition, row["offset"], row["key"]
