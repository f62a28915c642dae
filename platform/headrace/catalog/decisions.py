"""Why tables are kept as fresh as they are: each change of a freshness or a mode, with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import cast

import sqlalchemy as sa

from headrace.catalog.database import keep_newest, reading, utc_now
from headrace.catalog.schema import decision as d
from headrace.spec.model import TableName

KEPT = 100
"""Newest decisions of a table that stay."""


@dataclass(frozen=True)
class Decided:
    """One change of one property; `was` and `became` as a layer file says them.

    Args:
        what: FRESHNESS or REFRESH_MODE; MEASURED where a freshness was `kept` or `missed`.
    """

    table: TableName
    what: str
    was: str
    became: str
    why: str
    at: datetime


class Decisions:
    """The record. Thread-safe; it survives the process."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def record(self, table: TableName, what: str, was: str, became: str, why: str) -> None:
        """Note a change just made. The table's oldest beyond KEPT go."""
        values = {"table_name": str(table), "decided_at": utc_now(), "property": what}
        with self._engine.begin() as connection:
            connection.execute(sa.insert(d).values(values | {"was": was, "became": became, "why": why}))
            keep_newest(connection, d, str(table), KEPT)

    def of(self, table: TableName, limit: int = KEPT) -> list[Decided]:
        """Of one table, newest first."""
        select = sa.select(d).where(d.c.table_name == str(table)).order_by(d.c.id.desc()).limit(limit)
        with reading(self._engine) as connection:
            return [_decided(row) for row in connection.execute(select).mappings()]


def _decided(row: sa.RowMapping) -> Decided:
    at = cast(datetime, row["decided_at"]).replace(tzinfo=UTC)
    name = TableName.parse(row["table_name"])
    return Decided(name, row["property"], row["was"], row["became"], row["why"], at)
