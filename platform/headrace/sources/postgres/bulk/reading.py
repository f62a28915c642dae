"""Rows of page ranges at an exported snapshot, by binary COPY straight into Arrow: no row becomes Python."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from headrace.errors import TerminalError, TransientError
from headrace.sources.postgres.bulk.columns import CopiedColumn, Inexact, conform, copied, select_list
from headrace.sources.postgres.bulk.ranges import PageRange
from headrace.sources.schema import SourceSchema

BATCH_BYTES = 8 << 20
"""Bytes of one batch of rows, about."""

_NO_PRIVILEGE, _OTHERS = "42501", ("42703", "42P01")
"""SQLSTATEs: not permitted; no such column, no such table."""


class Reader:
    """One connection whose transaction reads at the snapshot. Use as a context manager.

    Args:
        snapshot: exported by a transaction that lasts until this returns.
    """

    def __init__(self, dsn: str, snapshot: str) -> None:
        # The wheel brings libpq and a driver for Arrow; nothing else of headrace needs them.
        from adbc_driver_postgresql import dbapi

        self._connection = dbapi.connect(dsn, autocommit=True)
        for statement in (
            "SET timezone = 'UTC'",
            "SET extra_float_digits = 1",
            "SET statement_timeout = 0",
            "SET idle_in_transaction_session_timeout = 0",
            "SET row_security = off",  # rows that the stream will bring must not be left out
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
            f"SET TRANSACTION SNAPSHOT '{snapshot}'",
        ):
            self._run(statement)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def hold(self, schema: SourceSchema) -> None:
        """Keep the table's columns as they are, and TRUNCATE away, until the reader is closed."""
        self._run(f"LOCK TABLE {_name(schema)} IN ACCESS SHARE MODE")

    def tables(
        self,
        schema: SourceSchema,
        arrow: pa.Schema,
        pages: PageRange,
        check: Callable[[], None],
        *,
        limit: int | None = None,
        where: str = "",
    ) -> Iterator[pa.Table]:
        """The rows of these pages in the source columns' types, a few at a time.

        Args:
            arrow: names and types of the source columns.
            check: called between two batches; what it raises ends the copy.
            limit: rows at most.
            where: a condition that they meet.
        Raises:
            Inexact: a value that cannot be given exactly.
            TerminalError: the role may not read the table.
            TransientError: they cannot be read now.
        """
        query = copy_query(schema, pages) + (f" AND {where}" if where else "")
        query += "" if limit is None else f" LIMIT {limit}"
        with self._connection.cursor() as cursor:
            cursor.adbc_statement.set_options(**{"adbc.postgresql.batch_size_hint_bytes": str(BATCH_BYTES)})
            try:
                cursor.execute(query)
                for batch in cursor.fetch_record_batch():
                    check()
                    yield conform(batch, arrow, schema.table)
            except self._connection.Error as error:
                raise _failure(schema, error) from error
            except (pa.ArrowInvalid, OSError) as error:
                raise _failure(schema, error) from error

    def _run(self, statement: str) -> None:
        with self._connection.cursor() as cursor:
            try:
                cursor.execute(statement)
            except self._connection.Error as error:
                raise TransientError(f"the source refuses `{statement}`: {error}") from error


def copy_query(schema: SourceSchema, pages: PageRange) -> str:
    """The SELECT that is copied. Raises Inexact where a column cannot be given exactly."""
    columns = []
    for column in schema.columns:
        way = copied(column)
        if not isinstance(way, CopiedColumn):
            raise Inexact(f"`{schema.table}`: {way}")
        columns.append(way)
    return f"SELECT {select_list(columns)} FROM {_name(schema)} WHERE {pages.condition}"


def _failure(schema: SourceSchema, error: Any) -> Exception:
    text = str(error).strip()
    if "overflow" in text.lower() or "outside" in text.lower() or "larger than" in text.lower():
        return Inexact(f"`{schema.table}`: a value that Arrow cannot hold: {text}")
    state, line = getattr(error, "sqlstate", None), re.search(r"ERROR:\s*(.+)", text)
    says = f"`{schema.table}` cannot be read: {line[1] if line else text}"
    if state == _NO_PRIVILEGE:
        return TerminalError(f"{says}. Next: `headrace doctor` says which GRANT helps")
    if state in _OTHERS:
        return TransientError(
            f"{says}. Next: its columns have changed; again, once `headrace status` shows it"
        )
    return TransientError(f"{says}. Next: `headrace up` starts again")


def _name(schema: SourceSchema) -> str:
    return ".".join('"' + n.replace('"', '""') + '"' for n in (schema.table.schema, schema.table.table))
