"""What the bytes of messages are, and the same messages as the plain JSON that everything else reads.

Kafka Connect writes one of three forms, as its converters are set: JSON of the event; the same beside its
schema (`schemas.enable`, which is on where nobody turns it off); Avro, whose schema a registry keeps. A topic
may hold all of them, as when a converter was changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from headrace.sources.stream.avro import MAGIC, SchemaRegistry

if TYPE_CHECKING:
    import pyarrow as pa

_SCHEMA = b'{"schema":'
_BESIDE = _SCHEMA + b'{"type":'
"""A row's own column `schema` begins otherwise: of JSON there is text in it."""
_PAYLOAD = b',"payload":'
_DECODER = json.JSONDecoder()


@dataclass
class Formats:
    """Reads all of them. Thread-safe.

    Args:
        registry: None: Avro stays as it is, and nobody can apply it.
    """

    registry: SchemaRegistry | None = None
    _schemas: dict[tuple[str, bool], bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, registry: str | None) -> Formats:
        """Those with this registry, or without one. All share what they know of its schemas."""
        return cls(None if registry is None else _registry(registry))

    def plain(self, messages: pa.Table) -> pa.Table:
        """The messages with keys and values as plain JSON. What cannot be read stays as it is.

        Args:
            messages: columns as `sources.stream.messages.RAW`.
        Raises:
            TransientError, TerminalError: of the registry, see `SchemaRegistry.json`.
        """
        import pyarrow as pa

        for name in ("key", "value"):
            column = messages.column(name)
            if other(column):
                topics = messages.column("topic").to_pylist()
                found = [
                    self._plain(topic, name == "key", value)
                    for topic, value in zip(topics, column.to_pylist(), strict=True)
                ]
                place = messages.schema.get_field_index(name)
                messages = messages.set_column(place, name, pa.array(found, pa.binary()))
        return messages

    def _plain(self, topic: str, of_key: bool, message: bytes | None) -> bytes | None:
        if message is None:
            return None
        if message.startswith(MAGIC) and self.registry is not None:
            return self.registry.json(message) or message
        if message.startswith(_BESIDE):
            return self._payload((topic, of_key), message)
        return message

    def _payload(self, place: tuple[str, bool], message: bytes) -> bytes:
        """Most messages of a topic have the schema of the one before, which need not be read then."""
        schema = self._schemas.get(place)
        if schema is None or not message.startswith(schema):
            schema = _before_payload(message)
            if schema is None:
                return message
            self._schemas[place] = schema
        return message[len(schema) : -1]


@cache
def _registry(url: str) -> SchemaRegistry:
    return SchemaRegistry(url)


def other(column: pa.ChunkedArray) -> bool:
    """Whether some of these keys or values are not plain JSON."""
    import pyarrow.compute as pc

    return any(pc.any(pc.starts_with(column, mark)).as_py() for mark in (MAGIC, _BESIDE))


def _before_payload(message: bytes) -> bytes | None:
    """The part of a message before its payload; None where it has another form."""
    try:
        text = message.decode()
        _, end = _DECODER.raw_decode(text, len(_SCHEMA))
    except ValueError:
        return None
    before = text[:end].encode() + _PAYLOAD
    return before if message.startswith(before) and message.endswith(b"}") else None


def plain_batches(registry: str | None, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """`Formats.plain` of record batches, where a task of Spark's reads them.

    Args:
        registry: as `Broker.registry`.
    """
    import pyarrow as pa

    formats = Formats.of(registry)
    for batch in batches:
        yield from formats.plain(pa.Table.from_batches([batch])).to_batches()
