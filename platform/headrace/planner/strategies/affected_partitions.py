"""AFFECTED_PARTITIONS: the same mechanism where only partition columns can be followed to a leaf."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from headrace.planner.cells.affected import affected, partitions_only
from headrace.planner.sql.facts import QueryFacts, Refusal
from headrace.planner.strategies.affected_keys import AffectedKeys


@dataclass(frozen=True)
class AffectedPartitions(AffectedKeys):
    """As `AffectedKeys`, with `columns` all among the partition columns: whole partitions are run again."""

    name: ClassVar[str] = "AFFECTED_PARTITIONS"

    def describe(self, facts: QueryFacts) -> str:
        return (
            f"changed rows are found by their partition ({', '.join(self.columns)}), "
            f"{self.cells.describe(facts)}"
        )


def match(facts: QueryFacts) -> AffectedPartitions | Refusal:
    """AFFECTED_PARTITIONS holds where the query falls apart by partition columns alone."""
    found = affected(facts)
    if isinstance(found, Refusal):
        return found
    columns = tuple(c for c in found.outputs if c is not None)
    if not partitions_only(facts, columns):
        return Refusal("rows can be followed one by one")
    return AffectedPartitions(columns, found)
