"""A table in PostgreSQL that follows one of the warehouse: rows and position are one transaction.

Exactly once follows from that: whoever begins anew reads, in the same database, what the rows stand at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

import psycopg
import pyarrow as pa
from psycopg.sql import SQL, Identifier

from headrace.errors import TerminalError, TransientError
from headrace.results import PublishResult
from headrace.spec.publishing import Target
from headrace.store.schema import INSERT, KIND, UPDATE_AFTER, VERSION, TableSchema
from headrace.targets.columns import column_type, encoded
from headrace.targets.statements import LIVE, ORDER, POSITIONS, Statements

EXAMPLES = 10
"""Keys that a comparison shows of rows that differ."""

CONNECT_SECONDS = 10
_LEAST_SERVER = 15_00_00
"""Version that knows NULLS NOT DISTINCT."""

_COLUMNS = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_attribute a
WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_UNIQUE = """
SELECT i.indnullsnotdistinct OR i.indisprimary, array_agg(a.attname::text)
FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey::smallint[])
WHERE i.indrelid = to_regclass(%s) AND i.indisunique AND i.indisvalid
  AND i.indpred IS NULL AND i.indexprs IS NULL
GROUP BY i.indexrelid
"""


@dataclass(frozen=True)
class Position:
    """What a published table stands at.

    Args:
        published: `layer.table` whose rows it has.
        warehouse: which one writes it.
        changelog: whose versions are counted.
    """

    published: str
    warehouse: str
    changelog: str
    version: int


class PublishedTable:
    """One table, and a connection of its own.

    Args:
        dsn: of its database, with the login.
        name: `layer.table` that it follows.
        warehouse: which one this is: another one's tables are left alone.
    """

    def __init__(self, target: Target, dsn: str, name: str, schema: TableSchema, warehouse: str) -> None:
        self.target, self.name, self.schema, self.warehouse = target, name, schema, warehouse
        self._sql = Statements(target.schema, target.table, schema.columns, schema.key)
        try:
            self._connection = psycopg.connect(dsn, connect_timeout=CONNECT_SECONDS, autocommit=True)
        except psycopg.OperationalError as error:
            raise TransientError(f"{target} does not answer: {_first_line(error)}") from error

    def __enter__(self) -> PublishedTable:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def open(self) -> Position | None:
        """Let the table be there with its columns. Returns what it stands at; None before its first rows.

        A table that this warehouse has made before, of other columns or another key, is made anew, empty.

        Raises:
            TerminalError: somebody else has made the table, of other columns, or writes it.
        """
        with self._told(), self._connection.transaction():
            if self._connection.info.server_version < _LEAST_SERVER:
                raise TerminalError(
                    f"{self.target}: its server is older than PostgreSQL 15, and never takes NULLs in a key "
                    "for equal. Next: publish to a newer one"
                )
            self._connection.execute("SET timezone = 'UTC'")
            self._make_positions()
            found = self.position(lock=True)
            if found is not None and found.warehouse != self.warehouse:
                raise TerminalError(
                    f"{self.target} is written by another warehouse, as {found.published}. Next: another "
                    f"'publish.table', or, where that warehouse is gone: DELETE FROM "
                    f"{self.target.schema}.{POSITIONS} WHERE table_name = '{self.target.table}'"
                )
            if not self._fits(ours=found is not None):
                self._connection.execute(self._sql.create())
                self._connection.execute(self._sql.create_key())
                self._forget()
                found = None
            self._connection.execute(self._sql.create_staged())
        return found

    def position(self, *, lock: bool = False) -> Position | None:
        """What the table stands at."""
        query = SQL("SELECT published, warehouse, changelog, version FROM {} WHERE table_name = %s{}")
        statement = query.format(self._sql.positions, SQL(" FOR UPDATE" if lock else ""))
        rows = self._connection.execute(statement, (self.target.table,)).fetchall()
        return Position(*rows[0]) if rows else None

    def apply(self, changes: pa.Table, before: Position, after: Position, source_ms: int) -> None:
        """The changes between two positions, in one transaction.

        Args:
            changes: the table's columns, `_kind` and `_version`.
            source_ms: commit time at the source of the newest of them, milliseconds since 1970; 0: unknown.
        Raises:
            TerminalError: the table does not stand at `before`, or refuses a row.
            TransientError: its server does not answer.
        """
        with self._told(), self._connection.transaction():
            if self.position(lock=True) != before:
                raise TerminalError(f"somebody else has written {self.target}")
            if changes.num_rows:
                nullable = self._stage([_in_order(changes, self.schema)])
                self._connection.execute(self._sql.delete_dead(nullable))
                self._connection.execute(self._sql.upsert())
            self._note(after, source_ms)

    def replace(self, rows: Iterable[pa.Table], after: Position, source_ms: int) -> PublishResult:
        """Let the table have exactly these rows, in one transaction. What it has already is not touched.

        Returns:
            What differed.
        Raises:
            TerminalError: the table has a later version already, or refuses a row.
            TransientError: its server does not answer.
        """
        with self._told(), self._connection.transaction():
            there = self.position(lock=True)
            if there is not None and there.changelog == after.changelog and there.version > after.version:
                raise TerminalError(f"somebody else has written {self.target}, a later version")
            nullable = self._stage(_all_live(rows, self.schema))
            found = self._compared(nullable, after.version)
            self._connection.execute(self._sql.delete_unknown(nullable))
            self._connection.execute(self._sql.upsert(different=True))
            self._note(after, source_ms)
        return found

    def compare(self, rows: Iterable[pa.Table], version: int) -> PublishResult:
        """What would differ if the table had to have exactly these rows. Nothing changes."""
        with self._told(), self._connection.transaction(force_rollback=True):
            return self._compared(self._stage(_all_live(rows, self.schema)), version)

    def _compared(self, nullable: set[str], version: int) -> PublishResult:
        self._connection.execute("ANALYZE pg_temp.headrace_staged")
        sql = self._sql
        counts = [
            self._one(statement)
            for statement in (
                SQL("SELECT count(*) FROM pg_temp.headrace_staged"),
                sql.count_missing(nullable),
                sql.count_different(nullable),
                sql.count_unknown(nullable),
            )
        ]
        keys: list[dict[str, str]] = []
        if any(counts[1:]):
            rows = self._connection.execute(sql.example_keys(nullable, EXAMPLES)).fetchall()
            keys = [{k: str(v) for k, v in zip(self.schema.key, row, strict=True)} for row in rows]
        return PublishResult(
            table=self.name,
            target=str(self.target),
            version=version,
            rows=counts[0],
            missing=counts[1],
            different=counts[2],
            extra=counts[3],
            examples=keys,
        )

    def _one(self, statement: Any) -> int:
        [(found,)] = self._connection.execute(statement).fetchall()
        return int(found)

    def _make_positions(self) -> None:
        schema, name = Identifier(self.target.schema), f'"{self.target.schema}".{POSITIONS}'
        [(there,)] = self._connection.execute("SELECT to_regclass(%s) IS NOT NULL", (name,)).fetchall()
        if not there:  # who may not create schemas may have been given one
            [(known,)] = self._connection.execute(
                "SELECT to_regnamespace(%s) IS NOT NULL", (f'"{self.target.schema}"',)
            ).fetchall()
            if not known:
                self._connection.execute(SQL("CREATE SCHEMA {}").format(schema))
            self._connection.execute(self._sql.create_positions())

    def _fits(self, *, ours: bool) -> bool:
        """Whether the table is there as it should be. One of ours that is not is dropped."""
        name = f'"{self.target.schema}"."{self.target.table}"'
        found = [(str(n), str(t)) for n, t in self._connection.execute(_COLUMNS, (name,)).fetchall()]
        wanted = [(n, column_type(n, kind)) for n, kind in self.schema.columns]
        if not found:
            return False
        unique = self._connection.execute(_UNIQUE, (name,)).fetchall()
        keyed = any(equal and set(columns) == set(self.schema.key) for equal, columns in unique)
        if found == wanted and keyed:
            return True
        if not ours:
            raise TerminalError(_not_ours(self.target, found, wanted, self.schema.key))
        self._connection.execute(SQL("DROP TABLE {}").format(self._sql.target))
        return False

    def _forget(self) -> None:
        self._connection.execute(
            SQL("DELETE FROM {} WHERE table_name = %s").format(self._sql.positions), (self.target.table,)
        )

    def _note(self, position: Position, source_ms: int) -> None:
        self._connection.execute(
            SQL(
                "INSERT INTO {} AS p "
                "(table_name, published, warehouse, changelog, version, source_time, published_at) "
                "VALUES (%s, %s, %s, %s, %s, %s, clock_timestamp()) "
                "ON CONFLICT (table_name) DO UPDATE SET published = excluded.published, "
                "warehouse = excluded.warehouse, changelog = excluded.changelog, version = excluded.version, "
                "source_time = coalesce(excluded.source_time, p.source_time), "
                "published_at = excluded.published_at"
            ).format(self._sql.positions),
            (
                self.target.table,
                position.published,
                position.warehouse,
                position.changelog,
                position.version,
                datetime.fromtimestamp(source_ms / 1000, UTC) if source_ms else None,
            ),
        )

    def _stage(self, batches: Iterable[pa.Table]) -> set[str]:
        """Copy rows to the temporary table. Returns the key columns in which one of them has NULL."""
        nullable: set[str] = set()
        with self._connection.cursor() as cursor, cursor.copy(self._sql.copy()) as copy:
            for batch in batches:
                nullable |= {name for name in self.schema.key if batch.column(name).null_count}
                copy.write(encoded(batch))
        return nullable

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except psycopg.OperationalError as error:
            raise TransientError(f"{self.target} does not answer: {_first_line(error)}") from error
        except psycopg.Error as error:
            raise TerminalError(
                f"{self.target} refuses what `{self.name}` has: {_said(error)}. Next: mend it there or where "
                f"it comes from, then `headrace publish {self.name}`"
            ) from error


def _staged(rows: pa.Table, schema: TableSchema, order: pa.Array, live: pa.Array) -> pa.Table:
    return rows.select(list(schema.names)).append_column(ORDER, order).append_column(LIVE, live)


def _in_order(changes: pa.Table, schema: TableSchema) -> pa.Table:
    """In a version a key's new row is after its old one."""
    live = [kind in (INSERT, UPDATE_AFTER) for kind in changes.column(KIND).to_pylist()]
    versions = changes.column(VERSION).to_pylist()
    order = [2 * version + new for version, new in zip(versions, live, strict=True)]
    return _staged(changes, schema, pa.array(order, pa.int64()), pa.array(live, pa.bool_()))


def _all_live(batches: Iterable[pa.Table], schema: TableSchema) -> Iterator[pa.Table]:
    for rows in batches:
        count = rows.num_rows
        yield _staged(rows, schema, pa.array([0] * count, pa.int64()), pa.array([True] * count, pa.bool_()))


def _not_ours(
    target: Target, found: list[tuple[str, str]], wanted: list[tuple[str, str]], key: tuple[str, ...]
) -> str:
    there, declared = dict(found), dict(wanted)
    said = [f"it lacks {n} {t}" for n, t in wanted if n not in there]
    said += [f"its {n} is {there[n]}, not {t}" for n, t in wanted if there.get(n, t) != t]
    said += [f"its {n} is not of the query" for n in there if n not in declared]
    if not said and found != wanted:
        said.append(f"its columns stand in another order, not {', '.join(declared)}")
    said = said or [f"it has no unique index of ({', '.join(key)}) in which NULLs are equal"]
    return (
        f"{target} was made by somebody else, and {'; '.join(said)}. Next: mend, rename or drop it, or write "
        "another 'publish.table'; publishing goes on by itself"
    )


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def _said(error: psycopg.Error) -> str:
    """What the server says, in one line, with the row that it means."""
    parts: Mapping[str, str | None] = {"": error.diag.message_primary, "detail: ": error.diag.message_detail}
    where = error.diag.context
    found = [f"{name}{text}" for name, text in parts.items() if text]
    return "; ".join([*(found or [_first_line(error)]), *([where.partition("\n")[0]] if where else [])])
