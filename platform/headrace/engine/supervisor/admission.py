"""Which tables may run: those that their owners want to, unless a statement makes them pause."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.catalog import Catalog
from headrace.engine.table.table import Registry
from headrace.spec.model import TableName


@dataclass(frozen=True)
class Admission:
    """
    Attributes:
        paused: tables that neither stream nor refresh until their rows are by their new text.
    """

    registry: Registry
    catalog: Catalog
    paused: set[TableName] = field(default_factory=set)

    def wanted(self, name: TableName) -> bool:
        """Whether the table is to run and is not paused."""
        known = name in self.registry.tables and name not in self.paused
        return known and self.catalog.desired(name) == "RUNNING"
