"""Follow an output column down to the leaf column that it copies, through every SELECT in between.

A restriction on such a column may be pushed down to the leaf without changing the other rows: below an
aggregate only for GROUP BY columns, below a window only for PARTITION BY columns of every window, through
a LEFT JOIN only on its preserved side. DISTINCT lets every output column pass.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.planner.facts import Level, Origin, Refusal, Side, shortened


@dataclass(frozen=True)
class Traced:
    """`column` of leaf `reference`. `compared` says that the query itself compares its values for
    equality (grouping, partitioning, DISTINCT), so they are of a type that can be compared."""

    reference: int
    column: str
    compared: bool = False


def trace(level: Level, name: str) -> Traced | Refusal:
    """The leaf column behind output `name` of `level`."""
    output = level.output(name)
    if output is None:
        return Refusal(f"`{name}` is not the name of exactly one column")
    if output.origin is None:
        return Refusal(f"`{name}` is computed: {output.text}")
    if level.grouping is not None and output.origin not in level.grouping:
        return Refusal(f"`{name}` is not a GROUP BY column")
    for window in level.windows:
        if output.origin not in window.partition:
            return Refusal(f"`{name}` is not in the PARTITION BY of {shortened(window.text)}")
    found = follow(level, output.origin)
    if isinstance(found, Refusal):
        return found
    return Traced(found.reference, found.column, compared=found.compared or level.mixes_rows)


def follow(level: Level, origin: Origin) -> Traced | Refusal:
    """The leaf column behind a column of one of `level`'s sources."""
    source = level.sources[origin.source]
    if source.reference is not None:
        return Traced(source.reference, origin.column)
    assert source.level is not None
    return trace(source.level, origin.column)


def optional_leaf(level: Level, name: str) -> bool:
    """Whether output `name` comes from the side of a LEFT JOIN that may be absent."""
    output = level.output(name)
    while output is not None and output.origin is not None:
        source = level.sources[output.origin.source]
        if source.side is Side.LEFT:
            return True
        if source.level is None:
            return False
        level, output = source.level, source.level.output(output.origin.column)
    return False
