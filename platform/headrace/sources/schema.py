"""What is known of a captured table: its columns, its key, and whether its rows can be followed."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

from headrace.errors import Location
from headrace.sources.columns import SourceColumn, absent
from headrace.sources.mysql import types as mysql
from headrace.sources.postgres import types as postgresql
from headrace.spec.identity import digest
from headrace.spec.model import SourceTable

POSTGRESQL, MYSQL = "postgresql", "mysql"

MessageKey = Callable[[SourceTable], tuple[str, ...]]
"""The key of a table's messages that its connector's file names; () where it names none."""


@dataclass(frozen=True)
class SourceSchema:
    """Columns, key and replica identity of one captured table.

    Args:
        left_out: columns that do not come with its rows, each with why.
        refused: why its rows cannot be followed, and the SQL that helps; "" where they can.
        dialect: of the database: what its columns' types are named in.
    """

    table: SourceTable
    columns: tuple[SourceColumn, ...]
    key: tuple[str, ...]
    full_identity: bool
    left_out: tuple[tuple[str, str], ...] = ()
    refused: str = ""
    dialect: str = POSTGRESQL

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.columns)

    @property
    def typed(self) -> tuple[tuple[str, str], ...]:
        """Columns as (name, Spark type)."""
        return tuple((c.name, c.spark) for c in self.columns)

    def record(self) -> dict[str, Any]:
        """As JSON has it."""
        columns = [[c.name, c.type, c.dropped] for c in self.columns]
        identity, left_out = self.full_identity, [list(one) for one in self.left_out]
        known = {"columns": columns, "key": list(self.key), "full_identity": identity, "left_out": left_out}
        if self.refused:
            known["refused"] = self.refused
        return known if self.dialect == POSTGRESQL else {**known, "dialect": self.dialect}

    @classmethod
    def of(cls, table: SourceTable, recorded: dict[str, Any]) -> SourceSchema:
        """The schema that `record` wrote."""
        column = mysql.column if recorded.get("dialect") == MYSQL else postgresql.column
        columns = (
            absent(column(name, kind)) if dropped else column(name, kind)
            for name, kind, dropped in recorded["columns"]
        )
        left_out = tuple((name, why) for name, why in recorded["left_out"])
        key, refused = tuple(recorded["key"]), recorded.get("refused", "")
        full = recorded["full_identity"]
        return cls(table, tuple(columns), key, full, left_out, refused, recorded.get("dialect", POSTGRESQL))

    def why_refused(self, location: Location) -> str:
        """What a person reads of a stg table whose rows cannot be followed, and where it reads them."""
        return f"{location}: the source table `{self.table}` {self.refused}; then `headrace apply`"

    @property
    def present(self) -> tuple[str, ...]:
        """The columns that the source has now."""
        return tuple(c.name for c in self.columns if not c.dropped)

    @property
    def digest(self) -> str:
        """Sixteen hexadecimal digits of what decides how a row is read."""
        return digest([(c.name, c.spark, c.json, c.decode, c.select) for c in self.columns], self.key)

    def reading(self, names: Collection[str] | None) -> SourceSchema:
        """What a query sees of it that names these columns, in lower case; None: all of them."""
        if names is None:
            return self
        read = tuple(c for c in self.columns if c.name.lower() in names or c.name in self.key)
        return replace(self, columns=read)
