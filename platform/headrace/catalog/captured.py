"""The columns of captured tables by which the tables run: those of their sources, as followed last."""

from __future__ import annotations

import json
from collections.abc import Iterable

import sqlalchemy as sa

from headrace.catalog.database import reading, utc_now
from headrace.catalog.schema import captured_table as c
from headrace.sources.schema import SourceSchema
from headrace.spec.model import SourceTable


class CapturedTables:
    """Schemas by captured table. Thread-safe; they survive the process."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def known(self, tables: Iterable[SourceTable]) -> dict[SourceTable, SourceSchema]:
        """Of these tables, those that were ever noted."""
        named = {str(table): table for table in tables}
        with reading(self._engine) as connection:
            rows = connection.execute(sa.select(c.c.name, c.c.columns).where(c.c.name.in_(named))).all()
        return {named[name]: SourceSchema.of(named[name], json.loads(text)) for name, text in rows}

    def note(self, schemas: Iterable[SourceSchema]) -> None:
        """Run by these from now on."""
        with self._engine.begin() as connection:
            for schema in schemas:
                name = str(schema.table)
                values = {"columns": json.dumps(schema.record()), "noted_at": utc_now()}
                if connection.execute(sa.update(c).where(c.c.name == name).values(values)).rowcount == 0:
                    connection.execute(sa.insert(c).values(name=name, **values))
