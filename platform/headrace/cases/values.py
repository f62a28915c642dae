"""Values as a file has them, as the types of a table's columns want them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa

from headrace.cases.model import GivenRow, unknown_column
from headrace.errors import SpecError
from headrace.sources.columns import SourceColumn
from headrace.store.schema import arrow_schema

Columns = tuple[tuple[str, str], ...]
"""(name, Spark SQL type)."""

_EPOCH = datetime(1970, 1, 1)


def rows_of(rows: Iterable[GivenRow], columns: Columns, of: str) -> pa.Table:
    """The rows with all columns of a table; what they do not name is NULL.

    Args:
        of: the table, for errors.
    Raises:
        SpecError: a column that is not there, or a value that is none of the column's type; with its place.
    """
    schema, given = arrow_schema(columns), list(rows)
    for row in given:
        if (error := unknown_column(row, schema.names, of)) is not None:
            raise error
    kinds = dict(columns)
    return pa.Table.from_arrays(
        [pa.chunked_array([pa.array([_value(r, f, kinds[f.name]) for r in given], f.type)]) for f in schema],
        schema=schema,
    )


def _value(row: GivenRow, field: pa.Field, kind: str) -> Any:
    found = row.values.get(field.name)
    if found is None:
        return None
    try:
        if pa.types.is_nested(field.type):
            return pa.scalar(found, field.type).as_py()
        if pa.types.is_timestamp(field.type):
            return pa.scalar(_moment(found), pa.timestamp(field.type.unit)).cast(field.type).as_py()
        return pa.scalar(_text(found)).cast(field.type).as_py()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, ValueError) as error:
        raise SpecError(f"`{field.name}` is a {kind}, which {found!r} is not", row.location) from error


def _moment(found: Any) -> datetime:
    """In UTC, where times without a zone are, without saying so. Raises ValueError where it is no time."""
    moment = found if isinstance(found, datetime) else datetime.fromisoformat(_text(found))
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment


def _text(found: Any) -> str:
    """As SQL has it in quotes. YAML knows dates and times where they are not in quotes."""
    if isinstance(found, bool):
        return str(found).lower()
    if isinstance(found, datetime):
        return _moment(found).isoformat(" ")
    if isinstance(found, date):
        return found.isoformat()
    return found if isinstance(found, str) else str(found)


def image(row: GivenRow, columns: Sequence[SourceColumn]) -> str:
    """A row of a captured table as the connector sends it: JSON.

    Raises:
        SpecError: a value that is none of its column's type.
    """
    sent: dict[str, Any] = {}
    for column in columns:
        found = row.values.get(column.name)
        try:
            sent[column.name] = _sent(found, column)
        except ValueError as error:
            raise SpecError(
                f"`{column.name}` is a {column.type}, which {found!r} is not", row.location
            ) from error
    return json.dumps(sent)


def _sent(found: Any, column: SourceColumn) -> Any:
    if found is None or isinstance(found, list):
        return found
    if column.spark == "date" and column.json == "int":
        return (_moment(found) - _EPOCH).days
    if column.spark == "timestamp_ntz" and column.json == "bigint":
        unit = timedelta(milliseconds=1) if column.unit == "ms" else timedelta(microseconds=1)
        return (_moment(found) - _EPOCH) // unit
    if column.spark == "binary":
        return base64.b64encode(_text(found).encode()).decode()
    if column.spark == "timestamp":
        return f"{_moment(found).isoformat()}Z"
    if isinstance(found, dict):
        return json.dumps(found)
    return _text(found) if column.json == "string" else found
