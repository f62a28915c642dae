"""The refresh strategies, one module each: a frozen dataclass and `match(facts)`. Their order: `matchers`."""

from __future__ import annotations

from headrace.planner.strategies.affected_keys import AffectedKeys
from headrace.planner.strategies.affected_partitions import AffectedPartitions
from headrace.planner.strategies.full import Full
from headrace.planner.strategies.row import Row
from headrace.planner.strategies.top_n import TopN
from headrace.planner.strategies.weighted import Weighted

Strategy = Row | Weighted | AffectedKeys | AffectedPartitions | TopN | Full

__all__ = ["AffectedKeys", "AffectedPartitions", "Full", "Row", "Strategy", "TopN", "Weighted"]
