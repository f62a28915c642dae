"""The definitions that tables had before: what `ROLLBACK` brings back."""

from __future__ import annotations

from datetime import UTC, datetime

import sqlalchemy as sa

from headrace.catalog.schema import former_definition as f
from headrace.spec.model import TableName

KEPT = 20
"""Newest former definitions of a table that stay."""


class FormerDefinitions:
    """Texts that were applied once, by table. Thread-safe; they survive the process."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def remember(self, connection: sa.Connection, table: TableName, definition: str) -> None:
        """Note what another text replaces, in the transaction that replaces it. The oldest beyond KEPT go."""
        name, now = str(table), datetime.now(UTC).replace(tzinfo=None)
        connection.execute(sa.insert(f).values(table_name=name, replaced_at=now, definition=definition))
        oldest = sa.select(f.c.id).where(f.c.table_name == name).order_by(f.c.id.desc()).offset(KEPT).limit(1)
        last = connection.execute(oldest).scalar_one_or_none()
        if last is not None:
            connection.execute(sa.delete(f).where(f.c.table_name == name, f.c.id <= last))

    def newest(self, table: TableName) -> str | None:
        """The definition before the present one, None where there was none."""
        select = (
            sa.select(f.c.definition).where(f.c.table_name == str(table)).order_by(f.c.id.desc()).limit(1)
        )
        with self._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            return connection.execute(select).scalar_one_or_none()
