"""Registered readers: subscribers whose position in a table's changelog survives them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import cast

import sqlalchemy as sa

from headrace.catalog.database import reading, utc_now
from headrace.catalog.schema import reader as r
from headrace.errors import UnknownName, did_you_mean


@dataclass(frozen=True)
class Reader:
    """One subscriber of one table.

    Args:
        position: changelog version up to which it has done everything.
        progressed_at: when it last moved, or was seen with nothing left to do.
        expired: it holds nothing back any more.
    """

    table: str
    name: str
    position: int
    progressed_at: datetime
    expired: bool


class Readers:
    """The registered readers. Thread-safe; positions survive the process."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def all(self, table: str | None = None) -> list[Reader]:
        """Readers of one table, of all where None, by table and name."""
        select = sa.select(r).order_by(r.c.table_name, r.c.name)
        if table is not None:
            select = select.where(r.c.table_name == table)
        with reading(self._engine) as connection:
            return [_reader(row) for row in connection.execute(select).mappings()]

    def find(self, table: str, name: str) -> Reader | None:
        return next((found for found in self.all(table) if found.name == name), None)

    def done(self, table: str, name: str, position: int) -> None:
        """Register the reader, or note that it has done everything up to `position`. It is alive again."""
        values = {"position": position, "progressed_at": utc_now(), "expired": False}
        with self._engine.begin() as connection:
            update = sa.update(r).where(r.c.table_name == table, r.c.name == name).values(values)
            if connection.execute(update).rowcount == 0:
                connection.execute(sa.insert(r).values(table_name=table, name=name, **values))

    def expire(self, table: str, name: str, seen: datetime) -> bool:
        """Let the reader hold nothing back; False where it has moved since it was `seen`."""
        known = seen.astimezone(UTC).replace(tzinfo=None)
        where = (r.c.table_name == table) & (r.c.name == name) & (r.c.progressed_at == known)
        with self._engine.begin() as connection:
            return connection.execute(sa.update(r).where(where).values(expired=True)).rowcount > 0

    def drop(self, table: str, name: str) -> None:
        """Forget the reader. UnknownName where there is none."""
        with self._engine.begin() as connection:
            gone = connection.execute(sa.delete(r).where(r.c.table_name == table, r.c.name == name)).rowcount
        if not gone:
            hint = did_you_mean(name, (found.name for found in self.all(table)))
            raise UnknownName(f"`{table}` has no reader `{name}`" + (f": {hint}" if hint else ""))


def _reader(row: sa.RowMapping) -> Reader:
    progressed = cast(datetime, row["progressed_at"]).replace(tzinfo=UTC)
    return Reader(row["table_name"], row["name"], row["position"], progressed, bool(row["expired"]))
