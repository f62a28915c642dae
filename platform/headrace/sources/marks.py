"""Positions of a source marked in its stream, for whoever compares a snapshot with what the stream brought.

By a message in the database's log (`pg_logical_emit_message`), which needs neither a table nor a privilege.
Where a table `headrace_marker` is captured, by a row in it: before PostgreSQL 14 no messages are sent.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Collection, Iterable

import psycopg
from psycopg import sql

from headrace.errors import TerminalError
from headrace.sources.envelope import Event
from headrace.spec.connector import Connector
from headrace.spec.model import SourceTable

MARKER_TABLE = "headrace_marker"
"""A captured table `(id text primary key, at timestamptz)`: a row in it marks a position in the stream."""

PREFIX = "headrace"
"""Of the messages in the log: what is a mark, and what is somebody else's."""

MESSAGES = 140_000
"""Version of PostgreSQL from which `pgoutput` sends messages."""

MESSAGE = "m"
"""Debezium's operation of a message. Its topic is that of the connector."""


def mark_topics(connector: Connector, captured: Iterable[SourceTable]) -> list[str]:
    """Where the marks of a source arrive.

    Args:
        captured: tables whose schemas may have a marker table.
    """
    schemas = sorted({table.schema for table in captured})
    tables = [s for s in schemas if connector.captures(s, MARKER_TABLE)]
    topics = [f"{connector.name}.{schema}.{MARKER_TABLE}" for schema in tables]
    return [*topics, f"{connector.name}.message"] if sends_messages(connector) else topics


def sends_messages(connector: Connector) -> bool:
    """Whether the connector passes on messages that begin with the prefix, if its server sends them."""
    config = connector.config
    only, never = (
        _patterns(config.get(f"message.prefix.{kind}.list", "")) for kind in ("include", "exclude")
    )
    passed = any(map(_is_ours, only)) if only else not any(map(_is_ours, never))
    return passed and config.get("plugin.name", "decoderbufs") == "pgoutput"


def _patterns(listed: str) -> list[str]:
    return [entry.strip() for entry in listed.split(",") if entry.strip()]


def _is_ours(pattern: str) -> bool:
    try:
        return re.fullmatch(pattern, PREFIX, re.IGNORECASE) is not None
    except re.error:  # Java's dialect
        return False


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
    tables = sorted(s for s in schemas if connector.captures(s, MARKER_TABLE))
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


def marked(events: Iterable[Event]) -> set[str]:
    """The marks among them: ids of rows in a marker table, contents of messages as Debezium writes them."""
    found: set[str] = set()
    for event in events:
        if event.op == MESSAGE and event.value:
            message = json.loads(event.value).get("message") or {}
            if message.get("prefix") == PREFIX:
                found.add(str(message.get("content")))
        elif event.topic.endswith("." + MARKER_TABLE) and event.op == "c" and event.after:
            found.add(str(json.loads(event.after).get("id")))
    return found


def spellings(token: str) -> set[str]:
    """How a mark of this token may arrive: as a row's id, or a message by `binary.handling.mode`."""
    return {token, base64.b64encode(token.encode()).decode(), token.encode().hex()}
