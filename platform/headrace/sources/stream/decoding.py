"""Many Debezium messages as Arrow columns, without a Python object for each value.

Arrow's JSON reader takes all of them at once or none: where one is not an event that fits the table, or has a
value that Arrow would not read exactly as Spark does, `Undecodable` says so, and whoever asked goes the way
that sorts messages out one by one.
"""

from __future__ import annotations

import re
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from headrace.sources.columns import UNSENT_MARKS, SourceColumn
from headrace.sources.schema import SourceSchema
from headrace.sources.stream import binlog

BLOCK_BYTES = 4 << 20

_SOURCE = pa.struct([
    ("lsn", pa.int64()), ("ts_ms", pa.int64()), ("snapshot", pa.string()), ("file", pa.string()),
    ("pos", pa.int64()),
])  # fmt: skip
_TRANSACTION = pa.struct([("total_order", pa.int64())])
_JSON = {
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_OPS = ("c", "r", "u", "d")


class Undecodable(Exception):
    """Arrow does not read these messages."""


def decodable(source: SourceSchema) -> bool:
    """Whether all of the table's columns have types that Arrow reads as Spark does."""
    return all(_kind(column) is not None for column in source.columns)


def decode(messages: pa.Table, source: SourceSchema) -> pa.Table:
    """One row for each event, tombstones left out.

    Args:
        messages: columns as `sources.stream.messages.RAW`.
    Returns:
        `key`, `op`, `snapshot` (text), `offset`, `lsn`, `source_ms` (bigint), and the columns of the row
        after the change, or before it where it was deleted: `c0`, `c1`, … in the order of the source's.
    Raises:
        Undecodable: see the module.
    """
    messages = messages.filter(pc.is_valid(messages.column("value")))
    if not messages.num_rows:
        raise Undecodable("there are no events")
    if any(pc.any(pc.match_substring(messages.column("value"), mark)).as_py() for mark in UNSENT_MARKS):
        raise Undecodable("a value that may not have been sent")
    parsed = _parsed(messages.column("value"), {"after": _image(source)})
    op = parsed.column("op")
    if messages.column("key").null_count or not pc.all(pc.is_in(op, pa.array(_OPS))).as_py():
        raise Undecodable("not every message is an event of a row")
    deleted = pc.equal(op, "d")
    images = _fields(parsed.column("after"))
    if pc.any(pc.and_(pc.invert(deleted), pc.is_null(parsed.column("after")))).as_py():
        raise Undecodable("an event without an after image")
    if pc.any(deleted).as_py():
        gone = _parsed(messages.column("value").filter(deleted), {"before": _image(source)}).column("before")
        if gone.null_count:
            raise Undecodable("a delete without a before image")
        kept = pc.indices_nonzero(pc.invert(deleted))
        order = pa.concat_arrays([kept, pc.indices_nonzero(deleted)])
        back = pc.sort_indices(order)
        images = [
            pa.chunked_array([*one.take(kept).chunks, *other.chunks], one.type).take(back)
            for one, other in zip(images, _fields(gone), strict=True)
        ]
    for column, found in zip(source.columns, images, strict=True):
        if column.name in source.key and found.null_count:
            raise Undecodable("an image without its key")
    about = parsed.column("source")
    lsn = _lsn(about, parsed.column("transaction"))
    if lsn.null_count or pc.any(pc.and_(pc.not_equal(op, "r"), pc.less_equal(lsn, 0))).as_py():
        raise Undecodable("an event without a position")
    try:
        keys = messages.column("key").cast(pa.string())
    except pa.ArrowInvalid as error:
        raise Undecodable(f"a key: {error}") from error
    columns: dict[str, Any] = {
        "key": keys,
        "offset": messages.column("offset"),
        "op": op,
        "lsn": lsn,
        "source_ms": pc.fill_null(pc.struct_field(about, "ts_ms"), 0),
        "snapshot": pc.struct_field(about, "snapshot"),
    }
    for place, (column, found) in enumerate(zip(source.columns, images, strict=True)):
        columns[f"c{place}"] = _typed(found, column)
    return pa.table(columns)


def _lsn(about: pa.ChunkedArray, transaction: pa.ChunkedArray) -> pa.ChunkedArray:
    """As `sources.stream.envelope.LSN`."""
    lsn = pc.struct_field(about, "lsn")
    if not lsn.null_count:
        return lsn
    place = (pc.struct_field(about, "file"), pc.struct_field(about, "pos"))
    try:
        return pc.coalesce(lsn, binlog.arrow(*place, pc.struct_field(transaction, "total_order")))
    except pa.ArrowInvalid as error:
        raise Undecodable(f"a position: {error}") from error


def _parsed(values: pa.ChunkedArray, images: dict[str, pa.DataType]) -> pa.Table:
    schema = pa.schema([
        ("op", pa.string()), ("source", _SOURCE), ("transaction", _TRANSACTION), *images.items(),
    ])  # fmt: skip
    text = b"\n".join(values.to_pylist())
    try:
        found = pj.read_json(
            pa.BufferReader(text),
            read_options=pj.ReadOptions(block_size=BLOCK_BYTES),
            parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
    except pa.ArrowInvalid as error:
        raise Undecodable(str(error)) from error
    if found.num_rows != len(values):
        raise Undecodable("a message is not one JSON value")
    return found


def _fields(structs: pa.ChunkedArray) -> list[pa.ChunkedArray]:
    return [pc.struct_field(structs, [i]) for i in range(structs.type.num_fields)]


def _image(source: SourceSchema) -> pa.DataType:
    return pa.struct([(c.name, _kind(c)) for c in source.columns])


def _kind(column: SourceColumn) -> pa.DataType | None:
    """What Arrow reads from the JSON, None where Spark must read it."""
    if column.decode == "{}":
        return _JSON.get(column.json) if column.json == column.spark else None
    if column.spark == "date":
        return pa.int32()
    if column.spark == "timestamp_ntz":
        return pa.int64()
    if column.json != "string" or column.zero is not None:
        return None
    if _DECIMAL.fullmatch(column.spark) or column.spark == "timestamp":
        return pa.string()
    return None


def _typed(values: pa.ChunkedArray, column: SourceColumn) -> pa.ChunkedArray:
    """The values in the type of the stg column. Raises Undecodable where one does not fit it exactly."""
    try:
        if match := _DECIMAL.fullmatch(column.spark):
            if not _all_match(values, _NUMBER):
                raise Undecodable(f"column {column.name}")  # NaN, infinite
            return values.cast(pa.decimal128(int(match[1]), int(match[2])))
        if column.spark == "date":
            return _within(values.cast(pa.date32()), _DATES)
        if column.spark == "timestamp_ntz":
            return _within(values.cast(pa.timestamp(column.unit)).cast(pa.timestamp("us")), _TIMES)
        if column.spark == "timestamp":
            if not _all_match(values, _UTC):
                raise Undecodable(f"column {column.name}")
            return values.cast(pa.timestamp("us", "UTC"))
    except pa.ArrowInvalid as error:
        raise Undecodable(f"column {column.name}: {error}") from error
    return values


def _all_match(values: pa.ChunkedArray, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(values.drop_null(), pattern), min_count=0).as_py())


def _within(values: pa.ChunkedArray, bounds: tuple[pa.Scalar, pa.Scalar]) -> pa.ChunkedArray:
    """The values, where all are of years 1 to 9999: others are PostgreSQL's infinity, or next to it."""
    outside = pc.or_(pc.less(values, bounds[0]), pc.greater(values, bounds[1]))
    if pc.any(outside).as_py():
        raise Undecodable("a time before the year 1 or after 9999")
    return values


_DATES = (pa.scalar(date.min), pa.scalar(date.max))
_TIMES = (pa.scalar(datetime.min, pa.timestamp("us")), pa.scalar(datetime.max, pa.timestamp("us")))
_NUMBER = r"^-?[0-9]+(\.[0-9]+)?$"
_UTC = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z$"
