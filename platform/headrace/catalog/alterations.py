"""What statements have set of tables: it outlives the server."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import sqlalchemy as sa

from headrace.catalog.database import reading, utc_now
from headrace.catalog.schema import alteration as a
from headrace.spec import Project
from headrace.spec.alteration import Alteration, Property, altered, declared
from headrace.spec.model import TableName


class Alterations:
    """The alterations in force. Thread-safe."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def all(self) -> list[Alteration]:
        """By table and property."""
        select = sa.select(a).order_by(a.c.table_name, a.c.property)
        with reading(self._engine) as connection:
            return [_alteration(row) for row in connection.execute(select).mappings()]

    def applied(self, project: Project) -> tuple[Project, list[Alteration], list[Alteration]]:
        """The project as statements have altered it, what counts, and what does no more.

        The latter's file is the newer word.
        """
        tables, counting, outdated = dict(project.tables), [], []
        for found in self.all():
            if found.table in project.elsewhere:
                continue
            spec = project.tables.get(found.table)
            if spec is not None and declared(spec, found.what) == found.over:
                tables[found.table] = altered(tables[found.table], [found])
                counting.append(found)
            else:
                outdated.append(found)
        return replace(project, tables=tables), counting, outdated

    def of(self, table: TableName) -> list[Alteration]:
        """Of one table."""
        return [found for found in self.all() if found.table == table]

    def set(self, new: Alteration) -> None:
        """Put it in place of an older one of the same property."""
        values = {"value": new.value, "over": new.over, "altered_at": utc_now()}
        with self._engine.begin() as connection:
            if connection.execute(sa.update(a).where(*_of(new.table, new.what)).values(values)).rowcount == 0:
                key = {"table_name": str(new.table), "property": new.what}
                connection.execute(sa.insert(a).values(key | values))

    def drop(self, table: TableName, what: Property) -> None:
        """The file counts again. Nothing happens where nothing was set."""
        with self._engine.begin() as connection:
            connection.execute(sa.delete(a).where(*_of(table, what)))


def _of(table: TableName, what: Property) -> tuple[sa.ColumnElement[bool], ...]:
    return a.c.table_name == str(table), a.c.property == what


def _alteration(row: sa.RowMapping) -> Alteration:
    what = cast("Property", row["property"])
    return Alteration(TableName.parse(row["table_name"]), what, row["value"], row["over"])
