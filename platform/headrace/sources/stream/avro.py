"""Avro messages whose schema a registry keeps, as the JSON that Kafka Connect makes of the same row.

A message is a zero byte, the schema's id, and the row. Ids are four bytes where the converter is Confluent's
or does as it does, eight where it is Apicurio's own and knows a schema by its `globalId`. Ids begin at 1, so
four zero bytes are the first half of the latter. Where Apicurio's converter puts the id in a header, `framed`
makes such a message of it.
"""

from __future__ import annotations

import base64
import io
import json
import math
import re
import struct
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import fastavro
import httpx

from headrace.errors import TerminalError, TransientError

MAGIC = b"\0"
_SHORT, _LONG = struct.Struct(">xI"), struct.Struct(">xQ")

TIMEOUT_SECONDS = 10.0
UNKNOWN_SECONDS = 10.0
"""How long a schema is not asked for again that the registry does not know."""

_APICURIO = re.compile(r"/apis/(ccompat|registry)/v\d+$")
"""How an address of Apicurio's registry ends, in Confluent's protocol and in its own."""
_SAME_AS_CONFLUENT, _OWN = "/apis/ccompat/v7", "/apis/registry/v2"

HEADERS = ("apicurio.{}.globalId", "apicurio.{}.contentId")
"""Headers that hold an id of eight bytes: of the row of all tables, or of the text of the schema, which is
Confluent's id. `{}` is `key` or `value`."""

_NAMED = {part: tuple(name.format(part) for name in HEADERS) for part in ("key", "value")}

Reader = Callable[[io.BytesIO], Any]
"""Reads one row and gives what becomes JSON of it."""


class _Id(NamedTuple):
    number: int
    is_global: bool
    """Apicurio's `globalId`."""


def _id(message: bytes) -> _Id | None:
    if len(message) < _SHORT.size:
        return None
    (number,) = _SHORT.unpack_from(message)
    if number or len(message) < _LONG.size:
        return _Id(number, False)
    return _Id(_LONG.unpack_from(message)[0], True)


def framed(part: str, message: bytes | None, headers: Mapping[str, str | bytes | None]) -> bytes | None:
    """The message with the id that its headers hold in front of it; as it is where they hold none.

    Args:
        part: `key` or `value`.
    """
    by_global, by_content = map(headers.get, _NAMED[part])
    if message is not None and isinstance(by_global, bytes):
        return MAGIC + by_global + message
    if message is not None and isinstance(by_content, bytes):
        return MAGIC + by_content[-4:] + message
    return message


def framed_sql(part: str) -> str:
    """`framed` as Spark SQL, over columns as its source of Kafka has them."""

    def header(name: str) -> str:
        return f"get(filter(headers, h -> h.key = '{name.format(part)}'), 0).value"

    by_global, by_content = map(header, HEADERS)
    found = f"coalesce({by_global}, substring({by_content}, 5, 4))"
    return f"coalesce(concat(X'00', {found}, {part}), {part})"


class SchemaRegistry:
    """The schemas of one registry, each asked for once. Thread-safe.

    Args:
        url: Confluent's, or of what speaks its protocol, `http://host:port`; or Apicurio's, `http://host:port`
            and `/apis/ccompat/v7` or `/apis/registry/v2`. A login in it is sent, and never shown.
        clock: seconds.
        transport: for tests: answers in place of the network.
    """

    def __init__(
        self,
        url: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self._clock = clock
        self._http = httpx.Client(timeout=TIMEOUT_SECONDS, trust_env=False, transport=transport)
        self._readers: dict[_Id, Reader] = {}
        self._unknown: dict[_Id, float] = {}
        self._lock = threading.Lock()

    def json(self, message: bytes) -> bytes | None:
        """The message as compact JSON; None where its schema is not known, or its bytes are not of it.

        Args:
            message: begins with `MAGIC`.
        Raises:
            TransientError: the registry does not answer.
            TerminalError: it refuses to.
        """
        schema_id = _id(message)
        reader = None if schema_id is None else self._reader(schema_id)
        if schema_id is None or reader is None:
            return None
        row = io.BytesIO(message)
        row.seek((_LONG if schema_id.is_global else _SHORT).size)
        try:
            found = reader(row)
        except (EOFError, ValueError, IndexError, KeyError, TypeError, struct.error):
            return None
        if row.tell() != len(message):
            return None
        return json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode()

    def _reader(self, schema_id: _Id) -> Reader | None:
        with self._lock:
            if (known := self._readers.get(schema_id)) is not None:
                return known
            if self._clock() < self._unknown.get(schema_id, 0):
                return None
            schema = self._ask(schema_id)
            if schema is None:
                self._unknown[schema_id] = self._clock() + UNKNOWN_SECONDS
                return None
            self._readers[schema_id] = found = _compiled(schema)
            return found

    def _ask(self, schema_id: _Id) -> Any:
        """The schema, None where there is none or it is not Avro's."""
        own, number = schema_id.is_global, schema_id.number
        base = _APICURIO.sub(_OWN if own else _SAME_AS_CONFLUENT, self.url)
        try:
            answer = self._http.get(base + (f"/ids/globalIds/{number}" if own else f"/schemas/ids/{number}"))
        except httpx.TransportError as error:
            raise TransientError(
                f"the schema registry at {self._shown} does not answer ({error}): start it, or mend "
                "`schema_registry_url`. Next: `headrace status`"
            ) from error
        if answer.status_code == httpx.codes.NOT_FOUND:
            return None
        if not answer.is_success:
            kind = TransientError if answer.status_code >= 500 else TerminalError
            raise kind(
                f"the schema registry at {self._shown} refuses schema {number} ({answer.status_code}): "
                f"{answer.text[:200]}. Next: mend `schema_registry_url`, then `headrace up`"
            )
        try:
            content = answer.json()
            schema = content if own else json.loads(content["schema"])
            if not own and (content.get("schemaType", "AVRO") != "AVRO" or content.get("references")):
                return None
            return fastavro.parse_schema(_without_logical_types(schema))
        except (ValueError, KeyError, TypeError, fastavro.schema.SchemaParseException):
            return None

    @property
    def _shown(self) -> str:
        url = urlsplit(self.url)
        return url._replace(netloc=url.netloc.rpartition("@")[2]).geturl()


def _without_logical_types(schema: Any) -> Any:
    """Connect's converter to JSON writes what a logical type stands on: days, milliseconds, bytes."""
    if isinstance(schema, list):
        return [_without_logical_types(part) for part in schema]
    if isinstance(schema, dict):
        kept = {name: part for name, part in schema.items() if name != "logicalType"}
        return {n: p if n == "default" else _without_logical_types(p) for n, p in kept.items()}
    return schema


def _compiled(schema: Any) -> Reader:
    """
    Args:
        schema: as `fastavro.parse_schema` gives it.
    """
    convert = _converter(schema, {})

    def read(row: io.BytesIO) -> Any:
        return convert(fastavro.schemaless_reader(row, schema, None))

    return read


Convert = Callable[[Any], Any]


def _converter(schema: Any, named: dict[str, Convert]) -> Convert:
    """What turns a value that fastavro read into one that `json` writes as Connect does.

    Args:
        named: of the records that were met before.
    """
    if isinstance(schema, list):
        parts = [part for part in schema if part != "null"]
        if len(parts) != 1:
            return _unsure
        inner = _converter(parts[0], named)
        return lambda value: None if value is None else inner(value)
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind == "record":
        fields: dict[str, Convert] = {}
        record = _record(fields)
        named[schema["name"]] = record
        fields.update({f["name"]: _converter(f["type"], named) for f in schema["fields"]})
        return record
    if kind == "array":
        item = _converter(schema["items"], named)
        return lambda values: [item(value) for value in values]
    if kind == "map":
        value_of = _converter(schema["values"], named)
        return lambda values: {name: value_of(value) for name, value in values.items()}
    if isinstance(kind, list | dict):
        return _converter(kind, named)
    if kind == "fixed" or kind == "enum":
        named[schema["name"]] = _SIMPLE[kind]
    return named.get(kind) or _SIMPLE.get(kind, _same)


def _record(fields: Mapping[str, Convert]) -> Convert:
    return lambda row: {name: convert(row[name]) for name, convert in fields.items()}


def _same(value: Any) -> Any:
    return value


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _double(value: float) -> float | str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _float(value: float) -> float | str:
    """The shortest number that is the same float of 32 bits, as Java writes it."""
    if not math.isfinite(value):
        return _double(value)
    texts = (f"{value:.{digits}g}" for digits in range(6, 10))
    return next(float(t) for t in texts if struct.pack("f", float(t)) == struct.pack("f", value))


def _unsure(value: Any) -> Any:
    """A value of a union of several types, which Debezium does not make."""
    return _base64(value) if isinstance(value, bytes) else value


_SIMPLE: dict[str, Convert] = {
    "bytes": _base64,
    "fixed": _base64,
    "enum": _same,
    "double": _double,
    "float": _float,
}
