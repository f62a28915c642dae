"""The definitions that tables had before: what `ROLLBACK` brings back."""

from __future__ import annotations

import sqlalchemy as sa

from headrace.catalog.database import keep_newest, reading, utc_now
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
        values = {"table_name": str(table), "replaced_at": utc_now(), "definition": definition}
        connection.execute(sa.insert(f).values(values))
        keep_newest(connection, f, str(table), KEPT)

    def newest(self, table: TableName) -> str | None:
        """The definition before the present one, None where there was none."""
        select = (
            sa.select(f.c.definition).where(f.c.table_name == str(table)).order_by(f.c.id.desc()).limit(1)
        )
        with reading(self._engine) as connection:
            return connection.execute(select).scalar_one_or_none()
