"""Why tables are kept as fresh as they are: each change of a freshness or a mode, with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import cast

import sqlalchemy as sa

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
        now = datetime.now(UTC).replace(tzinfo=None)
        name = str(table)
        oldest = sa.select(d.c.id).where(d.c.table_name == name).order_by(d.c.id.desc()).offset(KEPT).limit(1)
        with self._engine.begin() as connection:
            values = {"table_name": name, "decided_at": now, "property": what}
            connection.execute(sa.insert(d).values(values | {"was": was, "became": became, "why": why}))
            last = connection.execute(oldest).scalar_one_or_none()
            if last is not None:
                connection.execute(sa.delete(d).where(d.c.table_name == name, d.c.id <= last))

    def of(self, table: TableName, limit: int = KEPT) -> list[Decided]:
        """Of one table, newest first."""
        select = sa.select(d).where(d.c.table_name == str(table)).order_by(d.c.id.desc()).limit(limit)
        with self._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            return [_decided(row) for row in connection.execute(select).mappings()]


def _decided(row: sa.RowMapping) -> Decided:
    at = cast(datetime, row["decided_at"]).replace(tzinfo=UTC)
    name = TableName.parse(row["table_name"])
    return Decided(name, row["property"], row["was"], row["became"], row["why"], at)
