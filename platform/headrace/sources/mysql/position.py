"""Reading a captured MySQL or MariaDB database at a position that is known in its stream, too.

Nothing is locked. MariaDB tells where in its log a snapshot stands. MySQL does not: there the transactions
that were over before the snapshot began are known by their GTIDs, and the others count as not seen. What the
stream has of them is these rows, or newer ones.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pymysql

from headrace.errors import TerminalError, TransientError
from headrace.sources.marks import MARKER_TABLE, marker_schemas
from headrace.sources.mysql.client import Client, answering, connect, denied, quoted
from headrace.sources.part import Part
from headrace.sources.position import Seen
from headrace.sources.schema import SourceSchema
from headrace.sources.stream import binlog
from headrace.sources.stream.envelope import Event
from headrace.spec.connector import Connector

CHUNK = 20_000
"""Rows that are held at a time."""


@dataclass(frozen=True)
class SeenTo:
    """A snapshot at a place in the log: it shows what was written before."""

    lsn: int

    def shows(self, event: Event) -> bool:
        return event.lsn < self.lsn


@dataclass(frozen=True)
class SeenOf:
    """A snapshot that shows at least the transactions of a GTID set.

    Args:
        intervals: first and last number, by the server that has given them.
    """

    intervals: dict[str, tuple[tuple[int, int], ...]]

    @classmethod
    def read(cls, text: str) -> SeenOf:
        """As MySQL writes `gtid_executed`: `uuid:1-5:11,uuid:…`."""
        found: dict[str, tuple[tuple[int, int], ...]] = {}
        for entry in filter(None, re.split(r"[,\s]+", text)):
            server, *ranges = entry.split(":")
            bounds = [r.partition("-") for r in ranges]
            found[server.lower()] = tuple((int(a), int(b or a)) for a, _, b in bounds)
        return cls(found)

    def shows(self, event: Event) -> bool:
        server, _, number = (event.transaction or "").rpartition(":")
        if not number.isdigit():
            return False
        return any(a <= int(number) <= b for a, b in self.intervals.get(server.lower(), ()))


@dataclass(frozen=True)
class MysqlPosition:
    """See `sources.position.Position`. One table is read at a time: the snapshot is one connection's."""

    token: str
    lsn: int
    seen: Seen
    client: Client
    _reading: threading.Lock = field(default_factory=threading.Lock)

    @property
    def floor(self) -> int:
        """The log has transactions one after the other: what is not seen was written after the snapshot."""
        return self.lsn

    @property
    def place(self) -> str:
        return binlog.place(self.lsn)

    def stage(self, schema: SourceSchema, arrow: pa.Schema, path: Path, part: Part | None = None) -> None:
        """See `sources.position.Position`."""
        fields = ", ".join(c.select.replace("{}", quoted(c.name)) for c in schema.columns)
        name = quoted(schema.table.schema, schema.table.table)
        with self._reading, pq.ParquetWriter(path, arrow, compression="lz4") as writer:
            for where in [None] if part is None else part.conditions(quoted, literal):
                query = f"SELECT {fields} FROM {name}" + ("" if where is None else f" WHERE {where}")
                for rows in self._chunks(query, schema):
                    writer.write_table(_arrow(rows, arrow))

    def _chunks(self, query: str, schema: SourceSchema) -> Iterator[Sequence[tuple[Any, ...]]]:
        try:
            with answering(), self.client.streamed() as cursor:
                cursor.execute(query)
                while rows := cursor.fetchmany(CHUNK):
                    yield rows
        except pymysql.MySQLError as error:
            if denied(error):
                raise TerminalError(
                    f"{self.client.user} cannot read `{schema.table}`: {error.args[1]}. Next: "
                    "`headrace doctor` says which GRANT helps"
                ) from error
            raise TransientError(
                f"`{schema.table}` cannot be read: {error.args[-1]}. Next: its columns have changed; again, "
                "once `headrace status` shows it"
            ) from error

    def check(self, schema: SourceSchema, condition: str) -> None:
        """See `sources.position.Position`."""
        name = quoted(schema.table.schema, schema.table.table)
        try:
            with self._reading:
                self.client.rows(f"SELECT 1 FROM {name} WHERE ({condition}) LIMIT 0".replace("%", "%%"))
        except pymysql.MySQLError as error:
            raise TerminalError(
                f"the source refuses the condition `{condition}`: {error.args[-1]}. Next: compare its "
                "columns with values of their types"
            ) from error

    def query(self, text: str) -> list[tuple[object, ...]]:
        """See `sources.position.Position`."""
        with self._reading:
            return list(self.client.rows(text))


def literal(value: object) -> str:
    """A value as SQL reads it."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, (int, Decimal, float)):
        return str(value)
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'") + "'"


def _arrow(rows: Sequence[tuple[Any, ...]], arrow: pa.Schema) -> pa.Table:
    columns = [
        _column(list(values), f.type) for values, f in zip(zip(*rows, strict=True), arrow, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=arrow)


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_boolean(kind):
        values = [None if v is None else bool(v) for v in values]
    elif pa.types.is_decimal(kind):
        values = [None if v is None else Decimal(v) for v in values]
    elif pa.types.is_floating(kind):
        values = [None if v is None else float(v) for v in values]
    elif pa.types.is_string(kind):
        values = [v.decode() if isinstance(v, bytes) else v for v in values]
    elif pa.types.is_binary(kind):
        values = [v.encode() if isinstance(v, str) else v for v in values]
    return pa.array(values, kind)


@contextmanager
def fixed(
    dsn: str, connector: Connector, schemas: Collection[str], token: str, replica: str | None = None
) -> Iterator[MysqlPosition]:
    """See `sources.database.SourceDatabase.position`.

    Raises:
        TerminalError: there is no marker table that may be written, the log is not on, or MySQL has no GTIDs.
    """
    if replica is not None:
        raise TerminalError(
            f"`source_replicas` names a replica of `{connector.name}`, and only PostgreSQL's are read. Next: "
            "take it out"
        )
    with connect(dsn) as marking, connect(dsn) as reading:
        reading.rows("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        lsn, seen = _snapshot(reading, connector)
        marker = _marker(connector, schemas)
        _mark(marking, connector, marker, token)
        try:
            yield MysqlPosition(token, lsn, seen, reading)
        finally:
            marking.rows(f"DELETE FROM {marker} WHERE id = %s", (token,))


def _snapshot(client: Client, connector: Connector) -> tuple[int, Seen]:
    if client.maria:
        client.rows("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        found: dict[str, object] = dict(client.rows("SHOW STATUS LIKE 'binlog_snapshot_%%'"))
        file, offset = (str(found.get(f"Binlog_snapshot_{n}", "")) for n in ("file", "position"))
        if not file:
            raise TerminalError(_no_log(connector))
        lsn = binlog.number(file, int(offset))
        return lsn, SeenTo(lsn)
    begins = client.log_position()
    if begins is None:
        raise TerminalError(_no_log(connector))
    if client.variables("gtid_mode").get("gtid_mode") != "ON":
        raise TerminalError(
            f"source `{connector.name}` has no GTIDs, by which a snapshot of MySQL is found in its log. "
            "Next: gtid_mode = ON and enforce_gtid_consistency = ON in its my.cnf"
        )
    [(executed,)] = client.rows("SELECT @@GLOBAL.gtid_executed")
    client.rows("START TRANSACTION WITH CONSISTENT SNAPSHOT")
    return begins, SeenOf.read(str(executed))


def _no_log(connector: Connector) -> str:
    return (
        f"source `{connector.name}` writes no binary log. Next: log_bin and binlog_format = ROW in its my.cnf"
    )


def _marker(connector: Connector, schemas: Collection[str]) -> str:
    found = marker_schemas(connector, schemas)
    if not found:
        database = min(schemas, default="…")
        raise TerminalError(
            f"source `{connector.name}` cannot mark a position: its connector captures no marker table. "
            f"Next: {marker_sql(database)} and `{database}.{MARKER_TABLE}` in its table.include.list, then "
            "`headrace up`"
        )
    return quoted(found[0], MARKER_TABLE)


def marker_sql(database: str) -> str:
    """The statement that makes the marker table."""
    name = quoted(database, MARKER_TABLE)
    return f"CREATE TABLE {name} (id varchar(64) PRIMARY KEY, at datetime(6) NOT NULL);"


def _mark(client: Client, connector: Connector, marker: str, token: str) -> None:
    try:
        client.rows(f"INSERT INTO {marker} (id, at) VALUES (%s, UTC_TIMESTAMP(6))", (token,))
    except pymysql.MySQLError as error:
        raise TerminalError(
            f"source `{connector.name}` cannot mark a position: {error.args[-1]}. Next: `headrace doctor`"
        ) from error
