"""The state of a group: the stored columns to which a change is added, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sum:
    """A SUM in `column`, NULL where `values`, the count of its values that are not NULL, is 0."""

    column: str
    values: str
    text: str


@dataclass(frozen=True)
class State:
    """Stored columns of an aggregating table, visible or hidden, by what they are.

    Attributes:
        groups: columns that are the GROUP BY items.
        grouped: False for an aggregate without GROUP BY, which has one row also over nothing.
        rows: the column that is COUNT(*): a group exists where it is above 0. None where not `grouped`.
        counts: all columns that are counts, `rows` among them.
        sums: columns that are sums.
        hidden: columns that the query's SELECT list lacks, with their expressions, cut from its own text.
        outputs: every visible column as an expression over the columns above, in order.
        aggregating: visible columns that depend on an aggregate.
        at: offset in the query's text at which its SELECT list ends.
    """

    groups: tuple[str, ...]
    grouped: bool
    rows: str | None
    counts: tuple[str, ...]
    sums: tuple[Sum, ...]
    hidden: tuple[tuple[str, str], ...]
    outputs: tuple[tuple[str, str], ...]
    aggregating: tuple[str, ...]
    at: int

    @property
    def columns(self) -> tuple[str, ...]:
        """Groups, counts and sums: all that a change is added to."""
        return (*self.groups, *self.counts, *(s.column for s in self.sums))
