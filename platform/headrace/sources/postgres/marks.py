"""Marking a position in a PostgreSQL source's stream."""

from __future__ import annotations

from collections.abc import Collection

import psycopg
from psycopg import sql

from headrace.errors import TerminalError
from headrace.sources.marks import MARKER_TABLE, PREFIX, marker_schemas, sends_messages
from headrace.spec.connector import Connector

MESSAGES = 140_000
"""Version of PostgreSQL from which `pgoutput` sends messages."""

_WRITABLE = """
SELECT schemaname FROM pg_publication_tables
WHERE pubname = %s AND tablename = %s AND schemaname = ANY(%s)
    AND has_table_privilege(quote_ident(schemaname) || '.' || quote_ident(tablename), 'INSERT')
ORDER BY 1 LIMIT 1
"""


def mark(
    connection: psycopg.Connection[tuple[object, ...]],
    connector: Connector,
    schemas: Collection[str],
    token: str,
) -> None:
    """Commit a mark. It comes through the stream after all that is committed by now.

    Args:
        connection: to the source, in autocommit mode.
        schemas: where a marker table may be.
    Raises:
        TerminalError: the source has no way to mark a position.
    """
    tables = marker_schemas(connector, schemas)
    asked = (connector.publication, MARKER_TABLE, tables)
    found = connection.execute(_WRITABLE, asked).fetchall() if tables else []
    if found:
        table = sql.Identifier(str(found[0][0]), MARKER_TABLE)
        connection.execute(sql.SQL("INSERT INTO {} VALUES (%s, now())").format(table), (token,))
        return
    if connection.info.server_version < MESSAGES or not sends_messages(connector):
        raise TerminalError(
            f"source `{connector.name}` cannot mark a position: its connector passes on no messages "
            f"`{PREFIX}` of a server from PostgreSQL 14 on. Next: let it (plugin.name, message.prefix.*), or "
            f"capture a table {MARKER_TABLE} (id text PRIMARY KEY, at timestamptz) that it may write"
        )
    try:
        connection.execute("SELECT pg_logical_emit_message(true, %s::text, %s::text)", (PREFIX, token))
    except psycopg.errors.InsufficientPrivilege as error:
        raise TerminalError(
            f"source `{connector.name}` cannot mark a position: {error}. Next: `headrace doctor`"
        ) from error
