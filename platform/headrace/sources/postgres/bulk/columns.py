"""Which columns a copy gives exactly as Debezium and the decoding of its events would, and by what SELECT."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import HeadraceError
from headrace.sources.columns import SourceColumn
from headrace.spec.model import SourceTable

_AS_THEY_ARE = frozenset(
    {
        *("smallint", "integer", "bigint", "boolean", "real", "double precision"),
        *("text", "character varying", "bytea", "date"),
        *("timestamp with time zone", "timestamp without time zone"),
    }
)
_PARAMETRISED = re.compile(r"(character varying\(\d+\)|timestamp\(\d\) without time zone)")
_AS_TEXT = frozenset({"uuid", "json", "jsonb"})

FIRST_DAY, DAYS = -719_162, 3_652_059
"""0001-01-01 in days since 1970, and the days up to 9999-12-31: what every part of the stack reads alike."""
_DAY = 86_400_000_000


class Inexact(HeadraceError):
    """A value or column that a copy cannot give exactly as the connector would."""


@dataclass(frozen=True)
class CopiedColumn:
    """One column of the SELECT that is copied: PostgreSQL expression (`{}`: the quoted column)."""

    name: str
    select: str = "{}"


def copied(column: SourceColumn, *, generated: bool = False) -> CopiedColumn | str:
    """How the column is copied, or why it cannot be.

    Args:
        generated: PostgreSQL computes it, and does not publish it.
    """
    kind = column.type
    if column.dropped:
        return CopiedColumn(column.name, "NULL::text")
    if generated:
        return f"column `{column.name}` is generated"
    if kind in _AS_THEY_ARE or _PARAMETRISED.fullmatch(kind) or column.spark.startswith("decimal("):
        return CopiedColumn(column.name)
    if kind in _AS_TEXT:
        return CopiedColumn(column.name, "{}::text")
    if kind == "time without time zone":
        return CopiedColumn(column.name, column.select)
    return f"column `{column.name}` is a {kind}, which Debezium may write otherwise than PostgreSQL"


def conform(batch: pa.RecordBatch, schema: pa.Schema, table: SourceTable) -> pa.Table:
    """The batch in the source columns' own types, every value exact.

    Raises:
        Inexact: a value that its type cannot hold, or a time outside of the years 1 to 9999.
    """
    arrays = []
    for field, array in zip(schema, batch.columns, strict=True):
        try:
            arrays.append(_typed(array, field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise Inexact(f"`{table}`: column `{field.name}` holds a value that {error}") from None
        except OverflowError:
            raise Inexact(f"`{table}`: column `{field.name}` holds a time out of years 1 to 9999") from None
    return pa.Table.from_arrays(arrays, schema=schema)


def _typed(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    typed = array if array.type == kind else array.cast(kind)
    if pa.types.is_temporal(kind):
        _check_calendar(typed)
    return typed


def _check_calendar(array: pa.Array) -> None:
    unit = pa.int32() if pa.types.is_date32(array.type) else pa.int64()
    width = 1 if pa.types.is_date32(array.type) else _DAY
    found = pc.min_max(array.cast(unit)).as_py()
    if found["min"] is None:
        return
    if found["min"] < FIRST_DAY * width or found["max"] >= (FIRST_DAY + DAYS) * width:
        raise OverflowError


def select_list(columns: Sequence[CopiedColumn]) -> str:
    """The SELECT list, every column under its own name."""
    quoted = [(c, '"' + c.name.replace('"', '""') + '"') for c in columns]
    return ", ".join(f"{c.select.replace('{}', name)} AS {name}" for c, name in quoted)
