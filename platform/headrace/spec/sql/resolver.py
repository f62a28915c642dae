"""Walks a query and checks each column against what is visible there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp
from sqlglot.tokens import TokenType

from headrace.errors import SpecError, did_you_mean
from headrace.spec.model import TableSpec
from headrace.spec.sql.query import TABLE_FUNCTIONS, position, query_tokens
from headrace.spec.sql.scopes import Columns, Scope, Source

# Clauses that see the SELECT list's aliases besides the sources' columns.
ALIASED = ("group", "having", "order", "sort", "cluster", "distribute", "qualify", "windows")
# Functions that Spark calls without parentheses and sqlglot takes for columns, hidden columns, and ALL.
BARE = {
    *("current_user", "current_date", "current_time", "current_timestamp", "localtimestamp"),
    *("user", "session_user", "grouping__id", "_metadata", "all"),
}
# Items that may return several columns, or one named by rules of their own.
SEVERAL = (exp.Aliases, exp.UDTF, exp.QueryTransform, exp.Bracket)


@dataclass
class Resolver:
    """Checks the columns of one table's query."""

    spec: TableSpec
    upstreams: Mapping[str, Columns]
    piped: bool = field(init=False)

    def __post_init__(self) -> None:
        # sqlglot turns `|>` into common table expressions that are not in the text.
        kinds = {t.token_type for t in query_tokens(self.spec.query)}
        self.piped = TokenType.PIPE_GT in kinds

    def output(self, query: exp.Expr) -> Columns:
        """The columns `query` returns, after all in it are checked."""
        return None if self.piped else self._query(query, Scope({}))

    def _query(self, query: exp.Expr, outer: Scope) -> Columns:
        scope = self._with_ctes(query, outer)
        if isinstance(query, exp.Select):
            return self._select(query, scope)
        if isinstance(query, exp.SetOperation):
            left = self._query(query.this, scope)
            self._query(query.expression, scope)
            return None if query.args.get("by_name") else left
        if isinstance(query, exp.Subquery):
            return self._relation(query, scope).columns
        return None

    def _with_ctes(self, query: exp.Expr, outer: Scope) -> Scope:
        ctes = dict(outer.ctes)
        if with_ := query.args.get("with_"):
            for cte in with_.expressions:
                name, renamed = cte.alias.lower(), tuple(cte.alias_column_names)
                if with_.recursive:  # its own columns are not known while it is read
                    ctes[name] = renamed or None
                columns = self._query(cte.this, Scope(ctes, outer=outer.outer))
                ctes[name] = renamed or (None if with_.recursive else columns)
        return Scope(ctes, outer=outer.outer)

    def _select(self, select: exp.Select, scope: Scope) -> Columns:
        sources: list[Source] = []
        if from_ := select.args.get("from_"):
            sources += self._joined(from_.this, scope, ())
        for join in select.args.get("joins") or ():
            sources += self._join(join, scope, sources)
        for lateral in select.args.get("laterals") or ():
            sources.append(self._lateral(lateral, scope, sources))
        visible = Scope(scope.ctes, tuple(sources), outer=scope.outer)
        aliased = visible
        for item in select.expressions:
            self._check(item, aliased)  # an item sees the aliases before it
            if isinstance(item, exp.Alias):
                aliased = replace(aliased, aliases=aliased.aliases | {item.alias.lower()})
        for clause, value in select.args.items():
            if clause in ("expressions", "from_", "with_", "joins", "laterals", "hint", "kind"):
                continue
            for node in value if isinstance(value, list) else [value]:
                if isinstance(node, exp.Expr):
                    self._check(node, aliased if clause in ALIASED else visible)
        return self._returned(select, visible)

    def _joined(self, relation: exp.Expr, scope: Scope, before: Sequence[Source]) -> list[Source]:
        """A relation of a FROM clause with the joins that hang on it."""
        sources = [self._relation(relation, scope, before)]
        for join in relation.args.get("joins") or ():
            sources += self._join(join, scope, [*before, *sources])
        return sources

    def _join(self, join: exp.Join, scope: Scope, before: Sequence[Source]) -> list[Source]:
        sources = self._joined(join.this, scope, before)
        using = tuple(i.name.lower() for i in join.args.get("using") or ())
        hidden = (join.kind or "").upper() in ("SEMI", "ANTI")
        unsure = (join.method or "").upper() == "NATURAL"
        sources = [Source(s.names, None if unsure else s.columns, using, hidden) for s in sources]
        if on := join.args.get("on"):
            self._check(on, Scope(scope.ctes, (*before, *sources), outer=scope.outer))
        return sources

    def _relation(self, node: exp.Expr, scope: Scope, before: Sequence[Source] = ()) -> Source:
        alias = node.alias.lower()
        renamed = tuple(node.alias_column_names) if node.args.get("alias") else ()
        columns: Columns = None
        names: tuple[str, ...] = (alias,)
        if isinstance(node, exp.Lateral):
            return self._lateral(node, scope, before)
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            written = tuple(p.name for p in node.parts)
            columns = self.upstreams.get(".".join(written), self.upstreams.get(".".join(written).lower()))
            if len(written) == 1:
                columns = scope.ctes.get(written[0].lower())
            names = (alias,) if node.args.get("alias") else tuple(w.lower() for w in written)
        elif isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query):
            inner = self._with_ctes(node, scope)
            columns = self._query(node.this, Scope(inner.ctes, outer=inner.outer))
        elif isinstance(node, exp.Subquery):
            self._joined(node.this, scope, before)  # a join in parentheses
            names = ()
        elif isinstance(node, exp.Values) and (rows := node.expressions):
            width = len(rows[0].expressions) if isinstance(rows[0], exp.Tuple) else 1
            columns = tuple(f"col{i + 1}" for i in range(width))
        if node.args.get("pivots"):
            return Source(names, None)
        return Source(names, renamed or columns)

    def _lateral(self, node: exp.Lateral, scope: Scope, before: Sequence[Source]) -> Source:
        renamed = tuple(node.alias_column_names) or None
        inside = Scope(scope.ctes, tuple(before), outer=scope.outer)
        if isinstance(node.this, exp.Subquery):
            columns = self._query(node.this.this, Scope(scope.ctes, outer=inside))
            return Source((node.alias.lower(),), renamed or columns)
        self._check(node.this, inside)
        return Source((node.alias.lower(),), renamed)

    def _check(self, node: exp.Expr, scope: Scope) -> None:
        if isinstance(node, exp.Query):
            self._query(node, Scope(scope.ctes, outer=scope))
        elif isinstance(node, exp.Column):
            self._column(node, scope)
        else:
            for child in node.iter_expressions():
                self._check(child, scope)

    def _column(self, column: exp.Column, scope: Scope) -> None:
        parts = [p.name for p in column.parts]
        if len(parts) == 1 and (isinstance(column.this, exp.Star) or parts[0].lower() in BARE):
            return
        if scope.may_hold(parts):
            return
        named, known = parts[0], set[str]()
        for source, (name, *_) in reversed(scope.qualified(parts)):
            if source.columns is None or name == "*" or source.has(name):
                return
            named, known = name, set(source.columns)
        if not known:
            known = scope.visible() | (scope.qualifiers() if len(parts) > 1 else set())
        where = self.spec.locate(position(column))
        raise SpecError(f"there is no column `{'.'.join(parts)}`", where, did_you_mean(named, known))

    def _returned(self, select: exp.Select, scope: Scope) -> Columns:
        if select.args.get("kind"):  # SELECT TRANSFORM and its like
            return None
        names: list[str] = []
        for item in select.expressions:
            star = item.this if isinstance(item, exp.Column) else item
            if not isinstance(star, exp.Star):
                if isinstance(item, SEVERAL) or item.name.lower() in TABLE_FUNCTIONS:
                    return None
                names.append(_output_name(item))
                continue
            expanded = self._star(item, scope)
            if expanded is None:
                return None
            dropped = {e.name.lower() for e in star.args.get("except_") or ()}
            names += [c for c in expanded if c.lower() not in dropped]
        return tuple(names)

    def _star(self, item: exp.Expr, scope: Scope) -> Columns:
        if isinstance(item, exp.Column):
            found = scope.qualified([p.name for p in item.parts])
            return found[0][0].columns if found and len(found[0][1]) == 1 else None
        names: list[str] = []
        for source in scope.sources:
            if source.hidden:
                continue
            if source.columns is None:
                return None
            if source.merged:
                kept = [c for c in names if c.lower() in source.merged]
                kept.sort(key=lambda c: source.merged.index(c.lower()))
                names = kept + [c for c in names if c.lower() not in source.merged]
            names += [c for c in source.columns if c.lower() not in source.merged]
        return tuple(names)


def _output_name(item: exp.Expr) -> str:
    """What Spark calls the item; "" where that is the expression itself, such as `count(1)`."""
    if isinstance(item, (exp.Boolean, exp.Null)):
        return item.sql()
    if isinstance(item, (exp.Cast, exp.Paren)):
        return "" if isinstance(item.this, exp.Literal) else _output_name(item.this)
    return item.output_name
