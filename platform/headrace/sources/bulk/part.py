"""Some rows of a captured table: those that a condition holds for there, and others whose keys are known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

KEYS = 5_000
"""Keys that one query asks for."""


@dataclass(frozen=True)
class Part:
    """
    Args:
        condition: in PostgreSQL's SQL, over the table's columns.
        key: the table's key columns.
        others: key values, which none, some or all of its rows have.
    """

    condition: str
    key: tuple[str, ...]
    others: Sequence[tuple[Any, ...]]

    def conditions(self, connection: psycopg.Connection[tuple[object, ...]]) -> Iterator[str]:
        """Of queries that give each row of the part once, together."""
        yield f"({self.condition})"
        columns = sql.SQL(", ").join(map(sql.Identifier, self.key))
        for first in range(0, len(self.others), KEYS):
            keys = self.others[first : first + KEYS]
            rows = [sql.SQL("({})").format(sql.SQL(", ").join(map(sql.Literal, key))) for key in keys]
            among = sql.SQL("({}) IN ({})").format(columns, sql.SQL(", ").join(rows))
            yield f"({self.condition}) IS NOT TRUE AND {among.as_string(connection)}"
