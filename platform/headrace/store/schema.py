"""The columns of a stored table, and how they look to Delta, Spark and Arrow."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

KIND = "_kind"
ORIGIN = "_origin"
VERSION = "_version"
SEQUENCE = "_seq"

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = "+I", "-U", "+U", "-D"
STREAM, BACKFILL, REWIND, TOMBSTONE = "stream", "backfill", "rewind", "tombstone"
"""Origins of a change row. A tombstone only remembers the sequence of a delete whose row was never held:
it changes nothing, and no reader of changes sees it."""


_NOT_JOINABLE = ("float", "double", "array", "struct", "map", "variant", "interval")


@dataclass(frozen=True)
class TableSchema:
    """A materialized table's columns as its query gives them.

    Args:
        columns: (name, Spark SQL type) in query order, e.g. `("amount", "decimal(12,2)")`.
        key: primary key column names.
        partition: the partition column, or None.
        sequenced: True for a stg table, whose rows also carry their source sequence in `_seq`.
        hidden: columns that a refresh adds changes to and no reader sees, as (name, Spark SQL type).
    """

    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...]
    partition: str | None
    sequenced: bool = False
    hidden: tuple[tuple[str, str], ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.columns)

    @property
    def stored(self) -> tuple[tuple[str, str], ...]:
        """Columns of the snapshot."""
        columns = (*self.columns, *self.hidden)
        return (*columns, (SEQUENCE, "string")) if self.sequenced else columns

    @property
    def joinable(self) -> bool:
        """Whether Arrow can join by the key: not where a column of it is a float or nested."""
        kinds = dict(self.columns)
        return not any(kinds[c].startswith(_NOT_JOINABLE) for c in self.key)

    @property
    def comparable(self) -> bool:
        """Whether Arrow tells by value whether two rows are equal: not floats, where NaN is not itself."""
        return not any(kind.startswith(_NOT_JOINABLE) for _, kind in self.stored)

    @property
    def logged(self) -> tuple[tuple[str, str], ...]:
        """Columns of the changelog."""
        return (*self.stored, (KIND, "string"), (ORIGIN, "string"), (VERSION, "bigint"))

    @property
    def stored_names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.stored)


def ddl(columns: tuple[tuple[str, str], ...]) -> str:
    """`a bigint, b string` with quoted names."""
    return ", ".join(f"`{name}` {kind}" for name, kind in columns)


@lru_cache(maxsize=1024)
def spark_type(columns: tuple[tuple[str, str], ...]) -> StructType:
    from pyspark.sql.types import StructType

    schema = StructType.fromDDL(ddl(columns))
    assert isinstance(schema, StructType)
    return schema


@lru_cache(maxsize=1024)
def arrow_schema(columns: tuple[tuple[str, str], ...]) -> pa.Schema:
    """The Arrow schema that Spark's `toArrow` gives these columns: timestamps are microseconds, UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(spark_type(columns), timezone="UTC")


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """`table` with exactly the schema's columns, in its order and types (no lossy cast)."""
    return table.select(schema.names).cast(schema)
