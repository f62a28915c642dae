"""AFFECTED_PARTITIONS: the same mechanism where only partition columns can be followed to a leaf."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from headrace.planner.affected import affected, partitions_only
from headrace.planner.facts import QueryFacts, Refusal
from headrace.planner.paths import Path
from headrace.planner.strategies.affected_keys import describe_path


@dataclass(frozen=True)
class AffectedPartitions:
    """As `AffectedKeys`, with `columns` all among the partition columns: whole partitions are run again."""

    name: ClassVar[str] = "AFFECTED_PARTITIONS"
    columns: tuple[str, ...]
    driving: int
    trace: tuple[str, ...]
    paths: tuple[Path, ...] = ()

    def describe(self, facts: QueryFacts) -> str:
        text = (
            f"changed rows are found by their partition ({', '.join(self.columns)}), "
            f"copied from {facts.name_of(self.driving)} ({', '.join(self.trace)})"
        )
        if self.paths:
            text += "; " + "; ".join(describe_path(facts, p) for p in self.paths)
        return text


def match(facts: QueryFacts) -> AffectedPartitions | Refusal:
    """AFFECTED_PARTITIONS holds where the partition columns lead to one leaf, and every other leaf too."""
    found = affected(facts)
    if isinstance(found, Refusal):
        return found
    if not partitions_only(facts, found.columns):
        return Refusal("rows can be followed one by one")
    return AffectedPartitions(found.columns, found.driving, found.trace, found.paths)
