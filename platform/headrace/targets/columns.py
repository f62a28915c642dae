"""A table's columns in PostgreSQL: their types there, and its rows as COPY reads them."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.csv

from headrace.encoding import encode
from headrace.errors import TerminalError

Columns = Sequence[tuple[str, str]]
"""(name, Spark SQL type)."""

_PLAIN = {
    "boolean": "boolean",
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "float": "real",
    "double": "double precision",
    "string": "text",
    "binary": "bytea",
    "date": "date",
    "timestamp": "timestamp with time zone",
    "timestamp_ntz": "timestamp without time zone",
}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_NESTED = ("array<", "struct<", "map<")
_CSV = pyarrow.csv.WriteOptions(include_header=False, quoting_style="needed")
"""A NULL is nothing, an empty text two quotes: as COPY's own CSV has it."""


def column_type(column: str, kind: str) -> str:
    """What `format_type` prints of a column with the values of a Spark type.

    Raises:
        TerminalError: PostgreSQL has no such type.
    """
    if (found := _PLAIN.get(kind)) is not None:
        return found
    if decimal := _DECIMAL.fullmatch(kind):
        return f"numeric({decimal[1]},{decimal[2]})"
    if kind.startswith(_NESTED):
        return "jsonb"
    raise TerminalError(
        f"column `{column}` is {kind}, which PostgreSQL cannot hold. Next: let the query cast it, to string"
    )


def encoded(rows: pa.Table) -> bytes:
    """The rows for `COPY … FROM STDIN (FORMAT csv)`, columns in their order."""
    out = io.BytesIO()
    rows = rows.combine_chunks()  # pyarrow 26 writes what lies in memory where a first chunk is empty
    arrays = [_readable(rows.column(i), rows.schema.field(i)) for i in range(rows.num_columns)]
    pyarrow.csv.write_csv(pa.table(arrays, names=rows.column_names), out, _CSV)
    return out.getvalue()


def _readable(values: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray | pa.Array:
    kind = field.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return pa.array([None if v is None else f"\\x{v.hex()}" for v in values.to_pylist()], pa.string())
    if pa.types.is_nested(kind):
        return pa.array([_json(v, field) for v in values.to_pylist()], pa.string())
    return values


def _json(value: Any, field: pa.Field) -> str | None:
    return None if value is None else json.dumps(encode(_plain(value, field.type)), ensure_ascii=False)


def _plain(value: Any, kind: pa.DataType) -> Any:
    """Arrow gives the entries of a map as pairs."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return {str(key): _plain(item, kind.item_type) for key, item in value}
    if pa.types.is_struct(kind):
        return {field.name: _plain(value[field.name], field.type) for field in kind}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_plain(item, kind.value_type) for item in value]
    return value
