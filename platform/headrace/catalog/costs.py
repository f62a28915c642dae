"""What each table's work has cost, by the hour."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

import sqlalchemy as sa

from headrace.catalog.database import reading, utc_now
from headrace.catalog.schema import cost as c
from headrace.results import TableCost

KEPT = timedelta(days=92)
"""A quarter of a year."""

_SUMS = ("core_seconds", "seconds", "runs", "changes")


class Costs:
    """Thread-safe; they survive the process."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def add(self, found: Iterable[TableCost], now: datetime | None = None) -> None:
        """Add to those of the present hour; what is older than `KEPT` goes.

        Args:
            now: UTC, without a zone. Default: the present.
        """
        now = now or utc_now()
        hour = now.replace(minute=0, second=0, microsecond=0)
        with self._engine.begin() as connection:
            for each in found:
                own = (c.c.hour == hour) & (c.c.table_name == each.table) & (c.c.work == each.work)
                more = {name: c.c[name] + getattr(each, name) for name in _SUMS}
                if connection.execute(sa.update(c).where(own).values(more)).rowcount == 0:
                    new = {name: getattr(each, name) for name in _SUMS}
                    key = {"hour": hour, "table_name": each.table, "work": each.work}
                    connection.execute(sa.insert(c).values(key | new))
            connection.execute(sa.delete(c).where(c.c.hour < hour - KEPT))

    def since(self, hours: int, now: datetime | None = None) -> list[TableCost]:
        """Sums over the present hour and so many before it, by table and work."""
        first = (now or utc_now()).replace(minute=0, second=0, microsecond=0) - timedelta(hours=hours)
        sums = [sa.func.sum(c.c[name]).label(name) for name in _SUMS]
        select = (
            sa.select(c.c.table_name, c.c.work, *sums)
            .where(c.c.hour >= first)
            .group_by(c.c.table_name, c.c.work)
            .order_by(c.c.table_name, c.c.work)
        )
        with reading(self._engine) as connection:
            return [
                TableCost(table=row["table_name"], work=row["work"], **{name: row[name] for name in _SUMS})
                for row in connection.execute(select).mappings()
            ]
