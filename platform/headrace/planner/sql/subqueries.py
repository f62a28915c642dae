"""Subqueries in expressions: EXISTS, IN and scalar ones, as sources that a row is tested against.

Such a subquery is a function of its own rows and of the row that it stands beside. Equalities to that row
(of its WHERE, and of IN itself) tell which of its rows count; where there is none, all of them do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from headrace.planner.sql import functions
from headrace.planner.sql.clauses import Unsupported, shown
from headrace.planner.sql.facts import Equality, Level, Origin, Output, Side, Source
from headrace.planner.sql.names import Names
from headrace.planner.sql.relations import Ctes, Reader

_ALIASED = ("having", "qualify", "order")
"""Clauses in which a name may mean a column of the SELECT list."""


def read_subqueries(
    reader: Reader, select: exp.Select, names: Names, ctes: Ctes, outputs: tuple[Output, ...]
) -> list[Equality]:
    """Add a source to `names` for every subquery in an expression of `select`.

    Returns:
        The equalities between the sources' and the SELECT's columns.
    """
    taken = frozenset(
        o.name.lower() for o in outputs if o.origin is None or o.origin != names.unqualified(o.name)
    )
    found = list[Equality]()
    for clause, node in _subqueries(select):
        outer = names.hiding(taken) if clause in _ALIASED else names
        found += _attach(reader, node, names, outer, ctes)
    return found


def _subqueries(select: exp.Select) -> Iterator[tuple[str, exp.Query]]:
    for clause, value in select.args.items():
        if clause in ("with_", "hint", "from_", "joins", "laterals"):
            continue
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, exp.Expr):
                yield from ((clause, n) for n in functions.own_nodes(item) if isinstance(n, exp.Query))


def _attach(reader: Reader, node: exp.Query, names: Names, outer: Names, ctes: Ctes) -> list[Equality]:
    parent = node.parent
    if isinstance(parent, exp.Any | exp.All):
        raise Unsupported(f"{shown(parent)} is not followed")
    level = reader.query(node, ctes, outer)
    names.sources.append(Source(("",), tuple(o.name for o in level.outputs), Side.TEST, level=level))
    place = len(names.sources) - 1
    correlated = [
        Equality(c.outer, Origin(place, f"#{i}"), c.null_safe, place)
        for i, c in enumerate(level.correlations if isinstance(level, Level) else ())
    ]
    if not isinstance(parent, exp.In) or node.arg_key != "query":
        return correlated
    probe = parent.this
    while isinstance(probe, exp.Paren):
        probe = probe.this
    probes = [outer.resolve(p) for p in (probe.expressions if isinstance(probe, exp.Tuple) else [probe])]
    if len(probes) != len(level.outputs):
        return correlated
    members = [
        Equality(p, Origin(place, f"@{i}"), False, place) for i, p in enumerate(probes) if p is not None
    ]
    if _unknown_is_false(parent):
        return correlated + members
    if correlated:  # a NULL on its side decides the rows that it correlates with, and no others
        return correlated
    return [replace(m, null_aware=True) for m in members] if len(probes) == 1 else []


def _unknown_is_false(node: exp.Expr) -> bool:
    """Whether UNKNOWN does what FALSE does: a condition by itself, or below AND and OR alone."""
    above = node.parent
    while isinstance(above, exp.And | exp.Or | exp.Paren):
        above = above.parent
    return isinstance(above, exp.Where | exp.Having | exp.Qualify)
