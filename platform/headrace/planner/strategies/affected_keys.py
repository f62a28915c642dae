"""AFFECTED_KEYS: find the key values that a change can touch, run the same SQL for just those."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from headrace.planner.cells.affected import affected, partitions_only
from headrace.planner.cells.cells import Cells
from headrace.planner.sql.facts import QueryFacts, Refusal


@dataclass(frozen=True)
class AffectedKeys:
    """Every output row that differs has its `columns` among the cells that the change leads to.

    Attributes:
        columns: output columns K of the table; `cells.outputs`.
        cells: how K is found from each leaf, and each leaf restricted to values of K.
    """

    name: ClassVar[str] = "AFFECTED_KEYS"
    columns: tuple[str, ...]
    cells: Cells

    def describe(self, facts: QueryFacts) -> str:
        return f"changed rows are found by ({', '.join(self.columns)}), {self.cells.describe(facts)}"


def match(facts: QueryFacts) -> AffectedKeys | Refusal:
    """AFFECTED_KEYS holds where the query falls apart by output columns besides the partition columns."""
    found = affected(facts)
    if isinstance(found, Refusal):
        return found
    columns = tuple(c for c in found.outputs if c is not None)
    if partitions_only(facts, columns):
        return Refusal(f"only the partition column ({', '.join(columns)}) can be followed to a leaf")
    return AffectedKeys(columns, found)
