"""Follow an output column down to the leaf column that it copies, through SELECTs of one source each."""

from __future__ import annotations

from headrace.planner.sql.facts import Level, Refusal


def trace(level: Level, name: str) -> str | Refusal:
    """The column of the one leaf behind output `name`; every SELECT in between only filters and projects."""
    while True:
        output = level.output(name)
        if output is None:
            return Refusal(f"`{name}` is not the name of exactly one column")
        if output.origin is None:
            return Refusal(f"`{name}` is computed: {output.text}")
        below = level.sources[output.origin.source].level
        if below is None:
            return output.origin.column
        assert isinstance(below, Level)
        level, name = below, output.origin.column
