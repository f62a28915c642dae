"""Reading Avro object container files, as far as Paimon's manifests need it."""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

MAGIC = b"Obj\x01"
METADATA = {"type": "map", "values": "bytes"}

Read = Callable[[BinaryIO], Any]


def records(path: Path) -> list[Any]:
    """All records of the file, as dictionaries."""
    data = io.BytesIO(path.read_bytes())
    if data.read(4) != MAGIC:
        raise ValueError(f"{path}: not an Avro file")
    metadata = _reader(METADATA, {})(data)
    codec = metadata.get("avro.codec", b"null").decode()
    read = _reader(json.loads(metadata["avro.schema"]), {})
    sync = data.read(16)
    found = []
    while (start := data.read(1)) != b"":
        data.seek(-len(start), io.SEEK_CUR)
        count = _long(data)
        block = io.BytesIO(_decompress(data.read(_long(data)), codec))
        found += [read(block) for _ in range(count)]
        if data.read(16) != sync:
            raise ValueError(f"{path}: a block does not end with the file's marker")
    return found


def _decompress(block: bytes, codec: str) -> bytes:
    if codec == "null":
        return block
    if codec == "deflate":
        return zlib.decompress(block, -15)
    if codec == "zstandard":
        with pa.CompressedInputStream(pa.BufferReader(block), "zstd") as stream:
            content: bytes = stream.read()
            return content
    raise ValueError(f"Avro codec `{codec}` is not read here")


def _long(data: BinaryIO) -> int:
    value = shift = 0
    while True:
        byte = data.read(1)[0]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1)
        shift += 7


def _bytes(data: BinaryIO) -> bytes:
    return data.read(_long(data))


_PRIMITIVES: dict[str, Read] = {
    "null": lambda data: None,
    "boolean": lambda data: data.read(1) != b"\x00",
    "int": _long,
    "long": _long,
    "float": lambda data: struct.unpack("<f", data.read(4))[0],
    "double": lambda data: struct.unpack("<d", data.read(8))[0],
    "bytes": _bytes,
    "string": lambda data: _bytes(data).decode(),
}


def _reader(schema: Any, named: dict[str, Read]) -> Read:
    """How a value of the schema is read.

    Args:
        named: the records met so far, which later parts may name.
    """
    if isinstance(schema, str):
        return _PRIMITIVES.get(schema) or named[schema]
    if isinstance(schema, list):
        branches = [_reader(branch, named) for branch in schema]
        return lambda data: branches[_long(data)](data)
    kind = schema["type"]
    if kind == "record":
        fields = [(field["name"], _reader(field["type"], named)) for field in schema["fields"]]
        record: Read = lambda data: {name: read(data) for name, read in fields}  # noqa: E731
        named[schema["name"]] = record
        return record
    if kind == "array":
        item = _reader(schema["items"], named)
        return lambda data: _blocks(data, item)
    if kind == "map":
        value = _reader(schema["values"], named)
        return lambda data: dict(_blocks(data, lambda entry: (_bytes(entry).decode(), value(entry))))
    return _reader(kind, named)  # a primitive with a logical type, or a type in braces


def _blocks(data: BinaryIO, item: Read) -> list[Any]:
    found = []
    while (count := _long(data)) != 0:
        if count < 0:  # its size follows, for those who skip it
            _long(data)
        found += [item(data) for _ in range(abs(count))]
    return found
