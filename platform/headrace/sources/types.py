"""PostgreSQL column types: how Debezium writes them as JSON, and what they become in Spark.

The connector settings this relies on: `decimal.handling.mode=string`, `time.precision.mode=microseconds`,
`binary.handling.mode=base64`.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

_UNSENT = "__debezium_unavailable_value"
_UNSENT_BASE64 = base64.b64encode(_UNSENT.encode()).decode()
UNSENT_MARKS = (_UNSENT, _UNSENT_BASE64)
"""Texts of which a message that lacks a large value holds one; others may, too. See `SourceColumn.unsent`."""


@dataclass(frozen=True)
class SourceColumn:
    """One captured column.

    Args:
        name: as in the source.
        spark: Spark SQL type of the stg column.
        json: Spark SQL type under which the JSON value is read.
        decode: Spark SQL expression that turns the read value (`{}`) into `spark`; NULL where it cannot.
        select: PostgreSQL expression (`{}` is the quoted column) that reads the same value.
        type: as PostgreSQL's `format_type` prints it; empty where that is not known.
        dropped: the source has no such column any more: its values are NULL.
    """

    name: str
    spark: str
    json: str
    decode: str = "{}"
    select: str = "{}"
    type: str = ""
    dropped: bool = False

    @property
    def unsent(self) -> str:
        """How the JSON value reads, as text, where PostgreSQL did not send it because it did not change."""
        if self.spark == "binary":
            return _UNSENT_BASE64
        return f'["{_UNSENT}"]' if self.type.endswith("[]") else _UNSENT


_PLAIN = {
    "smallint": "smallint",
    "integer": "int",
    "bigint": "bigint",
    "boolean": "boolean",
    "real": "float",
    "double precision": "double",
}
_NUMERIC = re.compile(r"^numeric\((\d+),(-?\d+)\)$")
_MAX_PRECISION = 38


def column(name: str, type_name: str) -> SourceColumn:
    """The mapping of one column.

    Args:
        type_name: the type as PostgreSQL's `format_type` prints it, e.g. `numeric(12,2)`.

    Types without a Spark counterpart are kept as their text.
    """
    return replace(_mapping(name, type_name), type=type_name)


def absent(column: SourceColumn) -> SourceColumn:
    """The column after it was dropped from the source."""
    return replace(column, select="NULL", dropped=True)


def _mapping(name: str, type_name: str) -> SourceColumn:
    if type_name in _PLAIN:
        spark = _PLAIN[type_name]
        return SourceColumn(name, spark, spark)
    numeric = _NUMERIC.match(type_name)
    if numeric and int(numeric[1]) <= _MAX_PRECISION and 0 <= int(numeric[2]) <= int(numeric[1]):
        spark = f"decimal({numeric[1]},{numeric[2]})"
        return SourceColumn(name, spark, "string", f"try_cast({{}} AS {spark})")
    if type_name.startswith("timestamp") and type_name.endswith("with time zone"):
        return SourceColumn(name, "timestamp", "string", "try_cast({} AS timestamp)")
    if type_name.startswith("timestamp"):
        return SourceColumn(name, "timestamp_ntz", "bigint", "cast(timestamp_micros({}) AS timestamp_ntz)")
    if type_name == "date":
        return SourceColumn(name, "date", "int", "date_from_unix_date({})")
    if type_name == "bytea":
        return SourceColumn(name, "binary", "string", "try_to_binary({}, 'base64')")
    if type_name.startswith("time") and type_name.endswith("without time zone"):
        return SourceColumn(name, "bigint", "bigint", select="(extract(epoch from {}) * 1000000)::bigint")
    return SourceColumn(name, "string", "string", select="{}::text")


def unsent_column(columns: Iterable[SourceColumn], image: str) -> str | None:
    """The first column whose value the image lacks, because PostgreSQL did not send what did not change.

    Args:
        image: JSON text of a row after a change.
    """
    if not any(mark in image for mark in UNSENT_MARKS):
        return None
    values = json.loads(image)
    for column in columns:
        value = values.get(column.name)
        text = json.dumps(value, separators=(",", ":")) if isinstance(value, list) else value
        if text == column.unsent:
            return column.name
    return None


def unsent_sql(columns: Iterable[SourceColumn], image: str) -> str:
    """A Spark SQL expression for `unsent_column`; `image` names the column with the JSON text."""
    marked = " OR ".join(f"contains({image}, '{mark}')" for mark in UNSENT_MARKS)
    values = f"from_json({image}, 'map<string,string>')"
    asked = " ".join(
        f"WHEN {values}[{_text(c.name)}] = {_text(c.unsent)} THEN {_text(c.name)}" for c in columns
    )
    return f"CASE WHEN {marked} THEN CASE {asked} END END"


def _text(value: str) -> str:
    """A Spark SQL string literal."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
