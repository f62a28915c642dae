"""What the planner answers for one table."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.planner.strategies import Strategy
from headrace.planner.strategies.partitions import PartitionMap


@dataclass(frozen=True)
class Plan:
    """The chosen strategy, why it holds, and why each cheaper one was refused, in words for a user."""

    strategy: Strategy
    reason: str
    refused: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    partitions: PartitionMap = field(default_factory=PartitionMap)
