"""The refresh strategies, one module each: a frozen dataclass and `match(facts)`.

`MATCHERS` is the order of attempts, cheapest first; a new strategy is a module and a line here.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.planner.sql.facts import QueryFacts, Refusal
from headrace.planner.strategies import affected_keys, affected_partitions, full, row, top_n, weighted
from headrace.planner.strategies.affected_keys import AffectedKeys
from headrace.planner.strategies.affected_partitions import AffectedPartitions
from headrace.planner.strategies.full import Full
from headrace.planner.strategies.row import Row
from headrace.planner.strategies.top_n import TopN
from headrace.planner.strategies.weighted import Weighted

Strategy = Row | Weighted | AffectedKeys | AffectedPartitions | TopN | Full
Matcher = Callable[[QueryFacts], Strategy | Refusal]

MATCHERS: tuple[tuple[str, Matcher], ...] = (
    (Row.name, row.match),
    (Weighted.name, weighted.match),
    (AffectedKeys.name, affected_keys.match),
    (AffectedPartitions.name, affected_partitions.match),
    (Full.name, full.match),
)

__all__ = [
    "MATCHERS",
    "AffectedKeys",
    "AffectedPartitions",
    "Full",
    "Matcher",
    "Row",
    "Strategy",
    "TopN",
    "Weighted",
    "top_n",
]
