"""Messages in other forms than plain JSON, and registries that know a schema, do not, or do not answer."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import fastavro
import httpx
import pyarrow as pa
import pytest

from headrace.errors import TerminalError, TransientError
from headrace.sources.stream.avro import UNKNOWN_SECONDS, SchemaRegistry, framed
from headrace.sources.stream.envelope import Event, fault_sql
from headrace.sources.stream.formats import Formats, other
from headrace.sources.stream.messages import raw

ROW: dict[str, Any] = {
    "type": "record",
    "name": "Value",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "amount", "type": ["null", "string"], "default": None},
        {"name": "born", "type": ["null", {"type": "int", "logicalType": "date"}], "default": None},
        {"name": "picture", "type": ["null", "bytes"], "default": None},
        {"name": "real", "type": ["null", "float"], "default": None},
        {"name": "double", "type": ["null", {"type": "double", "connect.name": "x"}], "default": None},
        {"name": "tags", "type": ["null", {"type": "array", "items": ["null", "string"]}], "default": None},
        {"name": "more", "type": ["null", {"type": "map", "values": "string"}], "default": None},
    ],
}
ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "namespace": "shop.public.orders",
    "fields": [
        {"name": "before", "type": ["null", ROW], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "op", "type": "string"},
    ],
}
IMAGE = {
    "id": 1,
    "amount": "é 10.50",
    "born": 20_000,
    "picture": b"\x00\xff",
    "real": 0.1,
    "double": 1e300,
    "tags": ["a", None],
    "more": {"k": "v"},
}
EVENT = {"before": None, "after": IMAGE, "op": "c"}


@dataclass
class Registry:
    """A registry that has the envelope as schema 7, in one protocol or another."""

    status: int = 200
    asked: list[str] = field(default_factory=list)
    down: bool = False

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(str(request.url))
        if self.down:
            raise httpx.ConnectError("refused")
        path = request.url.path
        if self.status != 200:
            return httpx.Response(self.status, text="no")
        if path == "/apis/registry/v2/ids/globalIds/7":
            return httpx.Response(200, json=ENVELOPE)
        if path in ("/schemas/ids/7", "/apis/ccompat/v7/schemas/ids/7"):
            return httpx.Response(200, json={"schema": json.dumps(ENVELOPE)})
        return httpx.Response(404)


def registry(
    served: Registry, url: str = "http://registry:8081", clock: Callable[[], float] = lambda: 0.0
) -> SchemaRegistry:
    return SchemaRegistry(url, clock=clock, transport=httpx.MockTransport(served))


def avro(event: dict[str, Any], head: bytes = struct.pack(">xI", 7)) -> bytes:
    written = io.BytesIO(head)
    written.seek(len(head))
    fastavro.schemaless_writer(written, fastavro.parse_schema(ENVELOPE), event)
    return written.getvalue()


def test_avro_becomes_what_the_json_converter_writes() -> None:
    found = registry(Registry()).json(avro(EVENT))
    assert found is not None
    assert json.loads(found) == {
        "before": None,
        "after": IMAGE | {"picture": "AP8="},
        "op": "c",
    }
    assert b", " not in found and "é".encode() in found
    assert found.startswith(b'{"before":null,"after":{"id":1,')


@pytest.mark.parametrize(
    ("number", "shown"),
    [(float("nan"), "NaN"), (float("inf"), "Infinity"), (float("-inf"), "-Infinity"), (-0.0, -0.0)],
)
def test_numbers_that_json_has_not_are_text(number: float, shown: object) -> None:
    for column in ("real", "double"):
        found = registry(Registry()).json(avro(EVENT | {"after": IMAGE | {column: number}}))
        assert json.loads(found or b"")["after"][column] == shown


@pytest.mark.parametrize(
    ("url", "head", "asked"),
    [
        ("http://r:1", ">xI", "http://r:1/schemas/ids/7"),
        ("http://r:1/apis/ccompat/v7/", ">xI", "http://r:1/apis/ccompat/v7/schemas/ids/7"),
        ("http://r:1/apis/ccompat/v6", ">xQ", "http://r:1/apis/registry/v2/ids/globalIds/7"),
        ("http://r:1/apis/registry/v2", ">xQ", "http://r:1/apis/registry/v2/ids/globalIds/7"),
        ("http://r:1/apis/registry/v2", ">xI", "http://r:1/apis/ccompat/v7/schemas/ids/7"),
    ],
)
def test_ids_of_both_sizes_are_asked_for_where_they_are_known(url: str, head: str, asked: str) -> None:
    served = Registry()
    found = registry(served, url)
    for _ in range(3):
        assert found.json(avro(EVENT, struct.pack(head, 7))) is not None
    assert served.asked == [asked]


@pytest.mark.parametrize("name", ["globalId", "contentId"])
def test_an_id_may_stand_in_a_header(name: str) -> None:
    row = avro(EVENT, b"")
    headers = {f"apicurio.value.{name}": struct.pack(">Q", 7), "apicurio.value.encoding": b"BINARY"}
    found = framed("value", row, headers)
    assert found is not None and registry(Registry(), "http://r:1/apis/registry/v2").json(found) is not None
    assert framed("key", row, headers) == row
    assert framed("value", None, headers) is None
    assert framed("value", row, {}) == row


@pytest.mark.parametrize(
    "message",
    [
        b"\0",
        b"\0\0\0\0",
        struct.pack(">xI", 8) + b"row",
        struct.pack(">xI", 7),
        struct.pack(">xI", 7) + b"\x09\x09\x09",
        avro(EVENT)[:-2],
        avro(EVENT) + b"\0",
    ],
)
def test_what_is_not_of_a_known_schema_stays_as_it_is(message: bytes) -> None:
    formats = Formats(registry(Registry()))
    table = raw([("t", 0, 0, None, message)])
    assert formats.plain(table).column("value").to_pylist() == [message]
    event = Event("t", 0, 0, "k", None, None, None, 0, 0, None, message)
    assert "schema_registry_url" in (event.fault() or "")
    assert "X'00'" in fault_sql()


def test_an_unknown_schema_is_asked_for_again_after_a_while() -> None:
    served, now = Registry(status=404), [0.0]
    found = registry(served, clock=lambda: now[0])
    for _ in range(3):
        assert found.json(avro(EVENT)) is None
    assert len(served.asked) == 1
    served.status, now[0] = 200, UNKNOWN_SECONDS + 1
    assert found.json(avro(EVENT)) is not None


def test_a_registry_that_does_not_answer_is_waited_for() -> None:
    found = registry(Registry(down=True), "http://u:secret@registry:8081")
    with pytest.raises(TransientError, match="http://registry:8081 does not answer") as error:
        found.json(avro(EVENT))
    assert "secret" not in str(error.value)
    with pytest.raises(TransientError, match=r"refuses schema 7 \(503\)"):
        registry(Registry(status=503)).json(avro(EVENT))
    with pytest.raises(TerminalError, match=r"refuses schema 7 \(401\).*mend `schema_registry_url`"):
        registry(Registry(status=401)).json(avro(EVENT))


def beside_schema(payload: object, name: str = "orders") -> bytes:
    schema = {"type": "struct", "fields": [{"field": '"},"payload":', "type": "int64"}], "name": name}
    return json.dumps({"schema": schema, "payload": payload}, separators=(",", ":")).encode()


def test_a_schema_beside_the_event_is_left_out() -> None:
    formats = Formats()
    values = [
        beside_schema({"op": "c", "after": {"payload": "é"}}),
        beside_schema({"op": "u"}),
        beside_schema({"op": "d"}, name="orders_later"),
        beside_schema({"op": "c"}),
        None,
        b'{"op":"r"}',
    ]
    keys = [beside_schema({"id": n}, name="key") for n in range(len(values))]
    table = raw([("t", 0, n, keys[n], value) for n, value in enumerate(values)])
    found = formats.plain(table)
    assert found.schema == table.schema
    assert found.column("key").to_pylist() == [f'{{"id":{n}}}'.encode() for n in range(len(values))]
    assert [v and json.loads(v) for v in found.column("value").to_pylist()] == [
        {"op": "c", "after": {"payload": "é"}},
        {"op": "u"},
        {"op": "d"},
        {"op": "c"},
        None,
        {"op": "r"},
    ]


@pytest.mark.parametrize(
    "message",
    [
        b'{"schema":"public","payload":"x"}',
        b'{"op":"c"}',
        b'{"schema":{"type":"struct","fields":[',
        b'{"schema":{"type":"struct"},"payload":1',
        b'{"schema":{"type":"struct"},"other":1}',
        b'{"schema":{"type":"\xff"},"payload":1}',
        b"",
    ],
)
def test_anything_else_is_left_alone(message: bytes) -> None:
    table = raw([("t", 0, 0, message, message)])
    found = Formats().plain(table)
    assert found.column("value").to_pylist() == found.column("key").to_pylist() == [message]


def test_plain_json_costs_no_look_at_each_message() -> None:
    table = raw([("t", 0, n, b'{"id":1}', None if n else b'{"op":"c"}') for n in range(2)])
    assert Formats().plain(table) is table
    assert not other(pa.chunked_array([], pa.binary()))
    assert not other(pa.chunked_array([[None]], pa.binary()))
