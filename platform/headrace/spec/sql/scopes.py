"""What a SELECT sees, and how a name in it finds its column, by Spark's rules as far as they are certain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

Columns = tuple[str, ...] | None  # None: only Spark can tell; "" stands for an unnamed expression


@dataclass(frozen=True)
class Source:
    """One relation of a FROM clause. `merged` are the columns that USING joins to the ones before."""

    names: tuple[str, ...]  # lower-case parts it can be qualified by, e.g. ("dwd", "orders")
    columns: Columns
    merged: tuple[str, ...] = ()
    hidden: bool = False  # the right side of a semi or anti join: not part of *

    def has(self, column: str) -> bool:
        return column.lower() in (c.lower() for c in self.columns or ())


@dataclass(frozen=True)
class Scope:
    """What one SELECT sees; `outer` is the SELECT around it, for correlated subqueries."""

    ctes: Mapping[str, Columns]
    sources: tuple[Source, ...] = ()
    aliases: frozenset[str] = frozenset()
    outer: Scope | None = None

    def chain(self) -> Iterator[Scope]:
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.outer

    def all_sources(self) -> Iterator[Source]:
        for scope in self.chain():
            yield from scope.sources

    def qualified(self, parts: Sequence[str]) -> list[tuple[Source, Sequence[str]]]:
        """The sources whose name `parts` begin with, the nearest first, and what follows that name."""
        lowered = tuple(p.lower() for p in parts)
        return [
            (source, parts[length:])
            for source in self.all_sources()
            for length in range(1, min(len(source.names), len(parts) - 1) + 1)
            if lowered[:length] == source.names[-length:]
        ]

    def may_hold(self, parts: Sequence[str]) -> bool:
        """Whether `parts` may be a column (or a field of one), not qualified by a source's name."""
        if any(parts[0].lower() in scope.aliases for scope in self.chain()):
            return True
        if any(source.has(parts[0]) for source in self.all_sources()):
            return True
        if self.qualified(parts):
            return False
        unsure = any(s.columns is None for s in self.all_sources())
        unnamed = any("" in (s.columns or ()) for s in self.all_sources())
        # Spark names an unnamed expression after its text, such as `count(1)`.
        return unsure or (unnamed and not parts[-1].isidentifier())

    def visible(self) -> set[str]:
        """All column names, for hints."""
        return {c for source in self.all_sources() for c in source.columns or () if c}

    def qualifiers(self) -> set[str]:
        """All names of sources, for hints."""
        return {source.names[-1] for source in self.all_sources() if source.names and source.names[-1]}
