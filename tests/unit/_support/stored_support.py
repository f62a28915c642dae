"""Stored tables without a JVM: types that Spark would parse are looked up here."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import DateType, DecimalType, LongType, StringType, StructType, TimestampType

from headrace.spec.model import TableName
from headrace.store import schema as schemas
from headrace.store.record.commits import Commit
from headrace.store.schema import KIND, TableSchema
from headrace.store.tables import StoredTable

TYPES = {
    "bigint": LongType(),
    "string": StringType(),
    "decimal(12,2)": DecimalType(12, 2),
    "date": DateType(),
    "timestamp": TimestampType(),
}
COLUMNS = (("id", "bigint"), ("amount", "decimal(12,2)"), ("hour", "string"))
SCHEMA = TableSchema(COLUMNS, ("id",), "hour")
SEQUENCED = TableSchema(COLUMNS, ("id",), "hour", sequenced=True)


def _types(columns: tuple[tuple[str, str], ...]) -> StructType:
    found = StructType()
    for name, kind in columns:
        found = found.add(name, TYPES[kind])
    return found


@pytest.fixture
def no_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "spark_type", _types)


def made(root: Path, schema: TableSchema = SCHEMA) -> StoredTable:
    """A new table, opened."""
    table = StoredTable(TableName("dwd", "t"), root, schema)
    table.create("template")
    table.open()
    return table


def changes(table: StoredTable, *rows: tuple[str, int, str], hour: str = "h1", seq: str = "") -> pa.Table:
    """Change rows `(kind, id, amount)`."""
    columns = {
        "id": pa.array([r[1] for r in rows], pa.int64()),
        "amount": pa.array([r[2] for r in rows], pa.string()).cast(pa.decimal128(12, 2)),
        "hour": pa.array([hour] * len(rows), pa.string()),
    }
    if table.schema.sequenced:
        columns["_seq"] = pa.array([seq] * len(rows), pa.string())
    columns[KIND] = pa.array([r[0] for r in rows], pa.string())
    return pa.table(columns)


def append(table: StoredTable, *rows: tuple[str, int, str], hour: str = "h1", seq: str = "") -> None:
    """One commit."""
    table.append(
        changes(table, *rows, hour=hour, seq=seq),
        Commit("dwd.t", "stream", table.version + 1),
        origin="stream",
    )
