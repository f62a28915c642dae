"""Sets of columns that no two rows of a relation share, and the window orders that they make total."""

from __future__ import annotations

from headrace.planner.facts import Level, Origin, QueryFacts


def total_orders(facts: QueryFacts) -> frozenset[str]:
    """The window expressions, as text, whose PARTITION BY and ORDER BY columns hold a unique set."""
    found: set[str] = set()
    waiting = [facts.root] if facts.root is not None else []
    while waiting:
        level = waiting.pop()
        waiting += [s.level for s in level.sources if s.level is not None]
        unique = _grouped_or_joined(level, facts)
        if unique is not None:
            found |= {w.text for w in level.windows if unique <= w.partition | w.order}
    return frozenset(found)


def _grouped_or_joined(level: Level, facts: QueryFacts) -> frozenset[Origin] | None:
    """What is unique in the rows that windows of `level` see."""
    if level.grouping is not None:
        return level.grouping if level.plain_grouping else None
    if level.generator is not None:
        return None
    columns: set[Origin] = set()
    for index, source in enumerate(level.sources):
        key = facts.reference_keys[source.reference] if source.reference is not None else None
        if source.level is not None:
            key = _outputs(source.level, facts)
        if not key:
            return None
        columns |= {Origin(index, c) for c in source.columns if c.lower() in {k.lower() for k in key}}
    return frozenset(columns)


def _outputs(level: Level, facts: QueryFacts) -> tuple[str, ...] | None:
    """Names of outputs of `level` that are unique together."""
    unique = _grouped_or_joined(level, facts)
    if unique is not None:
        names = {o.origin: o.name for o in level.outputs if o.origin is not None}
        if all(origin in names for origin in unique):
            return tuple(names[origin] for origin in unique)
    return tuple(o.name for o in level.outputs) if level.distinct else None
