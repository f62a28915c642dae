"""FULL: run the whole query again and apply the difference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from headrace.planner.sql.facts import QueryFacts


@dataclass(frozen=True)
class Full:
    """Nothing is known about which rows a change can touch."""

    name: ClassVar[str] = "FULL"

    def describe(self, facts: QueryFacts) -> str:
        return facts.obstacle or "no narrower strategy holds"


def match(facts: QueryFacts) -> Full:
    """Always holds."""
    return Full()
