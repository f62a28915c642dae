"""The order in which a query's strategies are tried, cheapest first."""

from __future__ import annotations

from collections.abc import Callable

from headrace.planner.sql.facts import QueryFacts, Refusal
from headrace.planner.strategies import (
    AffectedKeys,
    AffectedPartitions,
    Full,
    Row,
    Strategy,
    Weighted,
    affected_keys,
    affected_partitions,
    full,
    row,
    weighted,
)

Matcher = Callable[[QueryFacts], Strategy | Refusal]

MATCHERS: tuple[tuple[str, Matcher], ...] = (
    (Row.name, row.match),
    (Weighted.name, weighted.match),
    (AffectedKeys.name, affected_keys.match),
    (AffectedPartitions.name, affected_partitions.match),
    (Full.name, full.match),
)
