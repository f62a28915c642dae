"""What all parts of the catalog do with its database: read, tell the time, forget what is old."""

from __future__ import annotations

from datetime import UTC, datetime

import sqlalchemy as sa


def reading(engine: sa.Engine) -> sa.Connection:
    """A connection that only reads, and so waits for no writer."""
    return engine.connect().execution_options(isolation_level="AUTOCOMMIT")


def utc_now() -> datetime:
    """The time as the catalog keeps it, without a zone: SQLite has none."""
    return datetime.now(UTC).replace(tzinfo=None)


def keep_newest(connection: sa.Connection, table: sa.Table, name: str, kept: int) -> None:
    """Delete what a table with `id` and `table_name` has of `name` beyond its newest rows."""
    columns = table.c
    own = columns.table_name == name
    oldest = sa.select(columns.id).where(own).order_by(columns.id.desc()).offset(kept).limit(1)
    last = connection.execute(oldest).scalar_one_or_none()
    if last is not None:
        connection.execute(sa.delete(table).where(own, columns.id <= last))
