"""Single clauses of a SELECT: its equalities, its grouping, its windows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqlglot import exp

from headrace.planner.sql import functions
from headrace.planner.sql.facts import Correlation, Equality, Origin, WindowFacts, shortened
from headrace.planner.sql.names import Names


class Unsupported(Exception):
    """Raised while reading; its text becomes `QueryFacts.obstacle`."""


def _text(node: exp.Expr) -> str:
    return node.sql(dialect="spark", comments=False)


def shown(node: exp.Expr) -> str:
    return shortened(_text(node))


def conjuncts(condition: exp.Expr) -> Iterator[exp.Expr]:
    """What `condition` demands at once, in order: also what all sides of an OR demand."""
    if isinstance(condition, exp.Paren):
        yield from conjuncts(condition.this)
    elif isinstance(condition, exp.And):
        yield from conjuncts(condition.this)
        yield from conjuncts(condition.expression)
    elif isinstance(condition, exp.Or):
        others = list(conjuncts(condition.expression))
        yield from (c for c in conjuncts(condition.this) if c in others)
    else:
        yield condition


def equalities(condition: exp.Expr, names: Names, *, introduced: int | None) -> list[Equality]:
    found = list[Equality]()
    for node in conjuncts(condition):
        if isinstance(node, exp.EQ | exp.NullSafeEQ):
            left, right = names.resolve(node.this), names.resolve(node.expression)
            if left is not None and right is not None and left.source != right.source:
                found.append(Equality(left, right, isinstance(node, exp.NullSafeEQ), introduced))
    return found


def correlations(condition: exp.Expr, names: Names, outer: Names) -> tuple[Correlation, ...]:
    """The conjuncts of a subquery's WHERE that make a column of it equal to one of the SELECT around."""
    found = list[Correlation]()
    for node in conjuncts(condition):
        if not isinstance(node, exp.EQ | exp.NullSafeEQ):
            continue
        for inside, outside in ((node.this, node.expression), (node.expression, node.this)):
            inner, origin = names.resolve(inside), names.means_outer(outside, outer)
            if inner is not None and origin is not None:
                found.append(Correlation(inner, origin, isinstance(node, exp.NullSafeEQ)))
                break
    return tuple(found)


def grouping(select: exp.Select, names: Names) -> tuple[frozenset[Origin] | None, bool]:
    """The GROUP BY columns, None without aggregation, and whether they are all there is in GROUP BY."""
    group = select.args.get("group")
    parts = [select.args.get(p) for p in ("having", "qualify", "order")]
    aggregates = [
        node
        for part in (*select.expressions, *(p for p in parts if p is not None))
        for node in functions.own_nodes(part)
        if functions.is_aggregate(node) and not functions.windowed(node)
    ]
    if group is None:
        return (frozenset(), True) if aggregates or select.args.get("having") is not None else (None, False)
    sets = any(group.args.get(part) for part in ("grouping_sets", "cube", "rollup", "totals"))
    if sets or group.find(exp.GroupingSets, exp.Rollup, exp.Cube):
        raise Unsupported("GROUPING SETS, ROLLUP or CUBE mix groups of several widths")
    keys = list(group.expressions)
    if group.args.get("all"):
        keys += [
            p.unalias()
            for p in select.expressions
            if not any(map(functions.is_aggregate, functions.own_nodes(p)))
        ]
    origins = [_grouped(key, select, names) for key in keys]
    return frozenset(o for o in origins if o is not None), None not in origins


def _grouped(key: exp.Expr, select: exp.Select, names: Names) -> Origin | None:
    """What a GROUP BY item names: a source's column first, then an alias; a number is a position."""
    if isinstance(key, exp.Literal):
        if key.is_string or any(p.find(exp.Star) for p in select.expressions if not p.find(exp.AggFunc)):
            return None
        position = int(key.name) - 1 if key.name.isdigit() else -1
        return (
            names.resolve(select.expressions[position].unalias())
            if 0 <= position < len(select.expressions)
            else None
        )
    if (origin := names.resolve(key)) is not None:
        return origin
    if isinstance(key, exp.Column) and not key.table and not names.knows(key.name):
        named = [
            p for p in select.expressions if isinstance(p, exp.Alias) and p.alias.lower() == key.name.lower()
        ]
        return names.resolve(named[0].this) if len(named) == 1 else None
    return None


def windows(select: exp.Select, names: Names) -> tuple[WindowFacts, ...]:
    named = {w.name.lower(): w for w in select.args.get("windows") or ()}
    found = list[WindowFacts]()
    for part in (*select.expressions, *(select.args[p] for p in ("qualify", "order") if select.args.get(p))):
        for node in functions.own_nodes(part):
            if not isinstance(node, exp.Window):
                continue
            clauses = [node]
            if (base := node.args.get("alias")) is not None:
                if base.name.lower() not in named:
                    raise Unsupported(f"WINDOW {base.name} is not declared beside {shown(node)}")
                clauses.append(named[base.name.lower()])
            partition = [key for c in clauses for key in c.args.get("partition_by") or ()]
            order = [o.this for c in clauses if c.args.get("order") for o in c.args["order"].expressions]
            found.append(WindowFacts(_origins(partition, names), _origins(order, names), _text(node)))
    return tuple(found)


def _origins(nodes: Iterable[exp.Expr], names: Names) -> frozenset[Origin]:
    return frozenset(o for o in map(names.resolve, nodes) if o is not None)
