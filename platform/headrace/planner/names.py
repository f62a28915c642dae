"""Which source of a SELECT a column name means, by Spark's rules. Unsure is None, never a guess."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from headrace.planner.facts import Origin, Source


@dataclass
class Names:
    """The names of one FROM clause while it is read from left to right."""

    sources: list[Source] = field(default_factory=list)
    merged: dict[str, Origin] = field(default_factory=dict)  # columns of USING, owned by the left side
    generated: set[str] = field(default_factory=set)  # columns of lateral views

    def unqualified(self, name: str) -> Origin | None:
        key = name.lower()
        if key in self.generated:
            return None
        if key in self.merged:
            return self.merged[key]
        hits = [
            Origin(index, column)
            for index, source in enumerate(self.sources)
            for column in source.columns
            if column.lower() == key
        ]
        return hits[0] if len(hits) == 1 else None

    def within(self, index: int, name: str) -> Origin | None:
        hits = [c for c in self.sources[index].columns if c.lower() == name.lower()]
        return Origin(index, hits[0]) if len(hits) == 1 else None

    def source_named(self, parts: tuple[str, ...]) -> int | None:
        hits = [i for i, s in enumerate(self.sources) if s.qualifiers[-len(parts) :] == parts]
        return hits[0] if len(hits) == 1 else None

    def resolve(self, node: exp.Expr | None) -> Origin | None:
        """The origin of an expression that is nothing but a column, else None."""
        while isinstance(node, exp.Paren):
            node = node.this
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            return None
        parts = tuple(p.lower() for p in (node.catalog, node.db, node.table) if p)
        if not parts:
            return self.unqualified(node.name)
        index = self.source_named(parts)
        return None if index is None else self.within(index, node.name)
