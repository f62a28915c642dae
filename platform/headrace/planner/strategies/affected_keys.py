"""AFFECTED_KEYS: find the key values that a change can touch, run the same SQL for just those."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from headrace.planner.affected import affected, partitions_only
from headrace.planner.facts import QueryFacts, Refusal
from headrace.planner.paths import Path


@dataclass(frozen=True)
class AffectedKeys:
    """Every output row that differs has `columns` among the values of `trace` in a touched driving row.

    Attributes:
        columns: output columns K of the table.
        driving: index into `TableSpec.references` of the leaf D that K is copied from.
        trace: D's column behind each of `columns`, in the same order.
        paths: for every other reference the way to D; empty where D is the only leaf.
    """

    name: ClassVar[str] = "AFFECTED_KEYS"
    columns: tuple[str, ...]
    driving: int
    trace: tuple[str, ...]
    paths: tuple[Path, ...] = ()

    def describe(self, facts: QueryFacts) -> str:
        text = (
            f"changed rows are found by ({', '.join(self.columns)}), "
            f"copied from {facts.name_of(self.driving)} ({', '.join(self.trace)})"
        )
        if self.paths:
            text += "; " + "; ".join(describe_path(facts, p) for p in self.paths)
        return text


def describe_path(facts: QueryFacts, path: Path) -> str:
    """`a change of dwd.users reaches dwd.orders by user_id = user_id`."""
    hops = []
    for step in path.steps:
        signs = ("<=>" if safe else "=" for safe in step.null_safe)
        pairs = (f"{a} {s} {b}" for a, s, b in zip(step.from_columns, signs, step.to_columns, strict=True))
        hops.append(f"{facts.name_of(step.to_reference)} by {' and '.join(pairs)}")
    return f"a change of {facts.name_of(path.reference)} reaches {', then '.join(hops)}"


def match(facts: QueryFacts) -> AffectedKeys | Refusal:
    """AFFECTED_KEYS holds where some output column besides the partition columns leads to one leaf, and
    every other leaf leads there by equalities."""
    found = affected(facts)
    if isinstance(found, Refusal):
        return found
    if partitions_only(facts, found.columns):
        return Refusal(f"only the partition column ({', '.join(found.columns)}) can be followed to a leaf")
    return AffectedKeys(found.columns, found.driving, found.trace, found.paths)
