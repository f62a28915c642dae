"""What a captured PostgreSQL database says about its tables, and reading it at a known position."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
import pyarrow as pa
from psycopg import sql

from headrace.errors import TransientError, UnknownName
from headrace.sources.types import SourceColumn, column
from headrace.spec.model import SourceTable

MARKER_TABLE = "headrace_marker"
"""A captured table `(id text primary key, at timestamptz)`: a row in it marks a position in the stream."""


@dataclass(frozen=True)
class SourceSchema:
    """Columns, key and replica identity of one captured table."""

    table: SourceTable
    columns: tuple[SourceColumn, ...]
    key: tuple[str, ...]
    full_identity: bool

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.columns)

    @property
    def typed(self) -> tuple[tuple[str, str], ...]:
        """Columns as (name, Spark type)."""
        return tuple((c.name, c.spark) for c in self.columns)


_COLUMNS = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod), c.relreplident = 'f'
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_KEY = """
SELECT a.attname FROM pg_index i
JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k(attnum, n) ON true
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
WHERE i.indrelid = to_regclass(%s) AND i.indisprimary ORDER BY k.n
"""


def connect(dsn: str, **options: str) -> psycopg.Connection[tuple[object, ...]]:
    """A connection with UTC timestamps. Raises TransientError where the server does not answer.

    Args:
        options: further connection parameters of libpq.
    """
    try:
        connection = psycopg.connect(dsn, connect_timeout=10, autocommit=True, **options)  # type: ignore[arg-type]
    except psycopg.OperationalError as error:
        raise TransientError(
            f"the source database does not answer: {error}. Next: `headrace status`"
        ) from error
    connection.execute("SET timezone = 'UTC'")
    return connection


def describe(dsn: str, tables: Iterable[SourceTable]) -> dict[SourceTable, SourceSchema]:
    """Read the schemas of captured tables. Raises UnknownName where one does not exist or has no key."""
    found: dict[SourceTable, SourceSchema] = {}
    with connect(dsn) as connection:
        for table in tables:
            name = f'"{table.schema}"."{table.table}"'
            rows = connection.execute(_COLUMNS, (name,)).fetchall()
            if not rows:
                raise UnknownName(
                    f"the source table `{table}` does not exist in the database. Next: create it, or remove "
                    f"the layer file that reads it"
                )
            key = tuple(str(r[0]) for r in connection.execute(_KEY, (name,)).fetchall())
            if not key:
                raise UnknownName(
                    f"the source table `{table}` has no primary key, so its rows cannot be followed. "
                    "Next: ALTER TABLE … ADD PRIMARY KEY"
                )
            columns = tuple(column(str(r[0]), str(r[1])) for r in rows)
            found[table] = SourceSchema(table, columns, key, bool(rows[0][2]))
    return found


@dataclass(frozen=True)
class Position:
    """A cut of the source: everything committed below `lsn` is in, nothing after it.

    Args:
        snapshot: exported: another connection to `dsn` can read at it as long as this one does.
    """

    token: str
    lsn: int
    dsn: str
    snapshot: str
    connection: psycopg.Connection[tuple[object, ...]]

    def tables(self, schema: SourceSchema, arrow: pa.Schema, *, chunk: int = 50_000) -> Iterator[pa.Table]:
        """The table's rows at the cut, whatever its columns are. Several tables may be read at the same time.

        Args:
            arrow: names and types of the source columns.
            chunk: rows at a time.
        """
        fields = sql.SQL(", ").join(
            sql.SQL(c.select.replace("{}", "{name}")).format(name=sql.Identifier(c.name))
            for c in schema.columns
        )
        query = sql.SQL("SELECT {} FROM {}").format(
            fields, sql.Identifier(schema.table.schema, schema.table.table)
        )
        with self.connection.cursor(f"headrace_{uuid.uuid4().hex}", binary=True) as cursor:
            cursor.itersize = chunk
            cursor.execute(query)
            while batch := cursor.fetchmany(chunk):
                columns = zip(zip(*batch, strict=True), arrow, strict=True)
                yield pa.Table.from_arrays([pa.array(v, field.type) for v, field in columns], schema=arrow)

    def query(self, text: str) -> list[tuple[object, ...]]:
        """Run any query at the cut."""
        return self.connection.execute(text).fetchall()


@contextmanager
def position(dsn: str, tables: Iterable[SourceTable], token: str) -> Iterator[Position]:
    """Fix a position of the source and keep it readable until the block ends.

    The tables are locked against writers for the milliseconds in which the marker row is written, so that
    every change is either committed before the marker or begins after it. The snapshot taken under the lock
    stays readable after the lock is gone.
    """
    names = sorted({(t.schema, t.table) for t in tables})
    with connect(dsn) as locking, connect(dsn) as reading:
        with locking.transaction():
            listed = sql.SQL(", ").join(sql.Identifier(s, t) for s, t in names)
            locking.execute("SET LOCAL lock_timeout = '10s'")
            locking.execute(sql.SQL("LOCK TABLE {} IN SHARE MODE").format(listed))
            reading.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            snapshot = str(reading.execute("SELECT pg_export_snapshot()").fetchall()[0][0])
            with connect(dsn) as marking:
                marking.execute(
                    sql.SQL("INSERT INTO {} VALUES (%s, now())").format(
                        sql.Identifier(names[0][0], MARKER_TABLE)
                    ),
                    (token,),
                )
                lsn = marking.execute("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn").fetchall()[0][0]
        yield Position(token, int(str(lsn)), dsn, snapshot, reading)
        reading.execute("ROLLBACK")
