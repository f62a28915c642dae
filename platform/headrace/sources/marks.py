"""Positions of a source marked in its stream, for whoever compares a snapshot with what the stream brought.

By a message in the database's log (`pg_logical_emit_message`), which needs neither a table nor a privilege.
Where a table `headrace_marker` is captured, by a row in it: before PostgreSQL 14 no messages are sent.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from headrace.spec.connector import Connector
from headrace.spec.model import SourceTable

if TYPE_CHECKING:
    from headrace.sources.stream.envelope import Event

MARKER_TABLE = "headrace_marker"
"""A captured table `(id text primary key, at timestamptz)`: a row in it marks a position in the stream."""

PREFIX = "headrace"
"""Of the messages in the log: what is a mark, and what is somebody else's."""

MESSAGE = "m"
"""Debezium's operation of a message. Its topic is that of the connector."""


def marker_schemas(connector: Connector, schemas: Iterable[str]) -> list[str]:
    """Of these schemas, those in which the connector captures a marker table."""
    return sorted(s for s in set(schemas) if connector.captures(s, MARKER_TABLE))


def mark_topics(connector: Connector, captured: Iterable[SourceTable]) -> list[str]:
    """Where the marks of a source arrive.

    Args:
        captured: tables whose schemas may have a marker table.
    """
    schemas = marker_schemas(connector, (table.schema for table in captured))
    topics = [f"{connector.name}.{schema}.{MARKER_TABLE}" for schema in schemas]
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
