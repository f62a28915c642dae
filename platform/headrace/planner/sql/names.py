"""Which source of a SELECT a column name means, by Spark's rules. Unsure is None, never a guess."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sqlglot import exp

from headrace.planner.sql.facts import Origin, Side, Source


@dataclass
class Names:
    """The names of one FROM clause while it is read from left to right."""

    sources: list[Source] = field(default_factory=list)
    using: dict[str, Origin] = field(
        default_factory=dict
    )  # columns of USING, as `*` has them, and their values
    absorbed: set[Origin] = field(default_factory=set)  # what USING made one column of
    generated: set[str] = field(default_factory=set)  # columns of lateral views, and what must not resolve
    merged: list[tuple[Origin, ...]] = field(default_factory=list)  # columns that FULL JOINs merge

    def unqualified(self, name: str) -> Origin | None:
        key = name.lower()
        if key in self.generated:
            return None
        if key in self.using:
            return self.using[key]
        hits = [
            Origin(index, column)
            for index, source in enumerate(self.sources)
            if source.side is not Side.TEST
            for column in source.columns
            if column.lower() == key
        ]
        return hits[0] if len(hits) == 1 else None

    def within(self, index: int, name: str) -> Origin | None:
        hits = [c for c in self.sources[index].columns if c.lower() == name.lower()]
        return Origin(index, hits[0]) if len(hits) == 1 else None

    def named(self, parts: tuple[str, ...]) -> list[int]:
        """The sources that `parts` may qualify."""
        return [
            i
            for i, s in enumerate(self.sources)
            if s.side is not Side.TEST and s.qualifiers[-len(parts) :] == parts
        ]

    def source_named(self, parts: tuple[str, ...]) -> int | None:
        hits = self.named(parts)
        return hits[0] if len(hits) == 1 else None

    def knows(self, name: str) -> bool:
        """Whether some source has the column, even if it is ambiguous."""
        return name.lower() in self.generated or any(
            name.lower() == c.lower() for s in self.sources if s.side is not Side.TEST for c in s.columns
        )

    def resolve(self, node: exp.Expr | None) -> Origin | None:
        """The origin of an expression that is nothing but a column, else None."""
        while isinstance(node, exp.Paren):
            node = node.this
        if isinstance(node, exp.Coalesce):
            return self._coalesced(node)
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            return None
        parts = qualifier(node)
        if not parts:
            return self.unqualified(node.name)
        index = self.source_named(parts)
        return None if index is None else self.within(index, node.name)

    def merge(self, *parts: Origin) -> Origin:
        """The column that a FULL JOIN makes of `parts`, the left side's first."""
        flat = [o for p in parts for o in ((p,) if p.source >= 0 else self.merged[-1 - p.source])]
        self.merged.append(tuple(flat))
        return Origin(-len(self.merged), parts[0].column)

    def _coalesced(self, node: exp.Coalesce) -> Origin | None:
        values = [node.this, *node.expressions]
        if not all(isinstance(v, exp.Column) for v in values):
            return None
        wanted = {self.resolve(v) for v in values}
        for index, parts in enumerate(self.merged):
            if wanted == set(parts) and len(values) == len(parts):
                return Origin(-1 - index, parts[0].column)
        return None

    def means_outer(self, node: exp.Expr, outer: Names) -> Origin | None:
        """The column of the enclosing SELECT that `node` is, where no name of this one is meant."""
        while isinstance(node, exp.Paren):
            node = node.this
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            return None
        parts = qualifier(node)
        own = self.knows(node.name) if not parts else bool(self.named(parts)) or self.knows(parts[0])
        return None if own else outer.resolve(node)

    def hiding(self, names: frozenset[str]) -> Names:
        """The same without the unqualified meaning of `names` (lower case)."""
        return replace(self, generated=self.generated | names)


def qualifier(column: exp.Column) -> tuple[str, ...]:
    """What stands before the column's name, in lower case."""
    return tuple(p.lower() for p in (column.catalog, column.db, column.table) if p)
