"""The queries for a part of a captured table."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
from psycopg import sql

from headrace.sources.part import KEYS, Part


def conditions(part: Part, connection: psycopg.Connection[tuple[object, ...]]) -> Iterator[str]:
    """Of queries that give each row of the part once, together."""
    yield f"({part.condition})"
    columns = sql.SQL(", ").join(map(sql.Identifier, part.key))
    for first in range(0, len(part.others), KEYS):
        keys = part.others[first : first + KEYS]
        rows = [sql.SQL("({})").format(sql.SQL(", ").join(map(sql.Literal, key))) for key in keys]
        among = sql.SQL("({}) IN ({})").format(columns, sql.SQL(", ").join(rows))
        yield f"({part.condition}) IS NOT TRUE AND {among.as_string(connection)}"
