"""The refresh strategies, one module each."""

from __future__ import annotations

from headrace.planner.strategies.affected_keys import AffectedKeys
from headrace.planner.strategies.affected_partitions import AffectedPartitions
from headrace.planner.strategies.full import Full
from headrace.planner.strategies.row import Row

Strategy = Row | AffectedKeys | AffectedPartitions | Full

__all__ = ["AffectedKeys", "AffectedPartitions", "Full", "Row", "Strategy"]
