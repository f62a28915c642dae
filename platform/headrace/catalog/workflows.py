"""The refresh workflows of tables that no flow advances: they outlive the server."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from headrace.catalog.database import reading, utc_now
from headrace.catalog.schema import refresh_workflow as w
from headrace.spec.model import RefreshMode, TableName


@dataclass(frozen=True)
class RefreshWorkflow:
    """One table is to be refreshed again and again.

    Args:
        freshness: seconds within which a change is to show.
        levels: tables refreshed on a schedule on the longest way to this one, itself included.
        suspended: it keeps its place, and nothing begins.
    """

    table: TableName
    mode: RefreshMode
    freshness: float
    levels: int = 1
    suspended: bool = False


class Workflows:
    """One at most of each table. Thread-safe."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def all(self) -> list[RefreshWorkflow]:
        """By table."""
        with reading(self._engine) as connection:
            rows = connection.execute(sa.select(w).order_by(w.c.table_name)).mappings()
            return [_workflow(row) for row in rows]

    def put(self, workflow: RefreshWorkflow) -> None:
        """Put it in place of the table's older one."""
        name = str(workflow.table)
        values = {
            "mode": str(workflow.mode),
            "freshness_seconds": workflow.freshness,
            "levels": workflow.levels,
            "suspended": workflow.suspended,
            "changed_at": utc_now(),
        }
        with self._engine.begin() as connection:
            if connection.execute(sa.update(w).where(w.c.table_name == name).values(values)).rowcount == 0:
                connection.execute(sa.insert(w).values(table_name=name, **values))

    def drop(self, table: TableName) -> None:
        """Nothing happens where there is none."""
        with self._engine.begin() as connection:
            connection.execute(sa.delete(w).where(w.c.table_name == str(table)))


def _workflow(row: sa.RowMapping) -> RefreshWorkflow:
    return RefreshWorkflow(
        TableName.parse(row["table_name"]),
        RefreshMode(row["mode"]),
        row["freshness_seconds"],
        row["levels"],
        row["suspended"],
    )
