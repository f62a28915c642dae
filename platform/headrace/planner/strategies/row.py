"""ROW: each upstream row gives at most one row of the table, under the same key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from headrace.planner.sql.facts import Level, QueryFacts, Refusal, Union, shortened
from headrace.planner.sql.trace import trace


@dataclass(frozen=True)
class Row:
    """Run the query over the changed upstream rows only: old images give the rows that go, new images
    the rows that come."""

    name: ClassVar[str] = "ROW"

    def describe(self, facts: QueryFacts) -> str:
        return (
            f"each row of {facts.references[0].upstream} gives at most one row, under the same key "
            f"({', '.join(facts.primary_key)})"
        )


def match(facts: QueryFacts) -> Row | Refusal:
    """ROW holds where the query only filters and projects one upstream and keeps its primary key whole."""
    if facts.root is None:
        return Refusal(facts.obstacle or "the query is not understood")
    if len(facts.references) != 1:
        return Refusal(f"the query reads {len(facts.references)} tables")
    level: Level | Union | None = facts.root
    while level is not None:
        if isinstance(level, Union):
            return Refusal("a UNION puts the rows of several queries together")
        if len(level.sources) != 1:
            return Refusal("the query reads a CTE more than once")
        if level.grouping is not None:
            return Refusal("the query aggregates")
        if level.distinct:
            return Refusal("DISTINCT makes one row of several")
        if level.windows:
            return Refusal(f"the window function {shortened(level.windows[0].text)} reads other rows")
        if level.generator is not None:
            return Refusal(f"{level.generator} makes several rows of one")
        level = level.sources[0].level
    assert isinstance(facts.root, Level)
    return _keeps_key(facts, facts.root)


def _keeps_key(facts: QueryFacts, root: Level) -> Row | Refusal:
    upstream, key = facts.references[0].upstream, facts.reference_keys[0]
    if not key or not facts.primary_key:
        return Refusal(f"{facts.table if key else upstream} has no primary key")
    copied = set[str]()
    for name in facts.primary_key:
        found = trace(root, name)
        if isinstance(found, Refusal):
            return found
        copied.add(found.lower())
    if len(facts.primary_key) != len(key) or copied != {k.lower() for k in key}:
        return Refusal(
            f"the primary key ({', '.join(facts.primary_key)}) is not a copy of that of {upstream} "
            f"({', '.join(key)}): several rows there may meet in one row here"
        )
    return Row()
