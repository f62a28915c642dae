"""Read a FROM clause: its sources, its joins and what they make equal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from sqlglot import exp

from headrace.planner.sql import clauses
from headrace.planner.sql.clauses import Unsupported, shown
from headrace.planner.sql.facts import Equality, Level, Origin, Side, Source, Union
from headrace.planner.sql.names import Names

JOIN_PARTS = frozenset({"this", "on", "side", "kind", "using", "hint"})
TABLE_PARTS = frozenset({"this", "db", "catalog", "alias", "hints"})
SUBQUERY_PARTS = frozenset({"this", "alias"})
CLAUSE_REASONS = {
    "limit": "LIMIT keeps rows by a global order",
    "offset": "OFFSET skips rows by a global order",
    "sample": "TABLESAMPLE picks rows at random",
    "pivots": "PIVOT is not followed",
}
_SIDES = {"LEFT": Side.LEFT, "RIGHT": Side.RIGHT, "FULL": Side.FULL, "": Side.INNER}


@dataclass(frozen=True)
class Cte:
    """A common table expression, with those that it sees itself."""

    query: exp.Expr
    columns: tuple[str, ...]
    visible: Mapping[str, Cte]


Ctes = Mapping[str, Cte]


class Reader(Protocol):
    """What reads whole queries and leaves; `extract.py` has it."""

    def query(self, node: exp.Expr, ctes: Ctes, outer: Names | None = None) -> Level | Union: ...

    def leaf(self, node: exp.Table) -> tuple[int, tuple[str, ...]]:
        """The reference that a table is, and its columns."""

    def expanding(self, cte: str) -> None:
        """Called for each reading of a CTE. Raises Unsupported beyond reason."""


def check_parts(node: exp.Expr, allowed: Iterable[str], what: str) -> None:
    """Refuse a node with a part that the planner does not know."""
    for part, value in node.args.items():
        if value and part not in allowed:
            raise Unsupported(
                CLAUSE_REASONS.get(part, f"{part.strip('_').upper()} of {what} is not followed")
            )


def read_from(reader: Reader, select: exp.Select, ctes: Ctes) -> tuple[Names, list[Equality]]:
    """The names of a FROM clause and the equalities of its ON and USING clauses."""
    clause = select.args.get("from_")
    if clause is None:
        raise Unsupported("a SELECT without FROM")
    names, equalities = Names(), list[Equality]()
    names.sources.append(_source(reader, clause.this, Side.FROM, ctes))
    for join in select.args.get("joins") or ():
        equalities += _join(reader, join, names, ctes)
    for lateral in select.args.get("laterals") or ():
        alias = lateral.args.get("alias")
        if alias is None or not alias.columns:
            raise Unsupported(f"LATERAL VIEW without column names: {shown(lateral)}")
        if any(alias.name.lower() == s.qualifiers[-1] for s in names.sources):
            raise Unsupported(f"LATERAL VIEW takes the name of a table: `{alias.name}`")
        names.generated |= {c.name.lower() for c in alias.columns}
    return names, equalities


def _join(reader: Reader, join: exp.Join, names: Names, ctes: Ctes) -> list[Equality]:
    if join.method:
        raise Unsupported(f"{join.method} JOIN is not followed")
    tests = join.kind in ("SEMI", "ANTI")
    if join.side not in (("", "LEFT") if tests else _SIDES) or (
        not tests and join.kind not in ("", "INNER", "OUTER", "CROSS")
    ):
        raise Unsupported(f"{shown(join)} is not followed")
    check_parts(join, JOIN_PARTS, "a JOIN")
    side = Side.INNER if tests else _SIDES[join.side]
    names.sources.append(_source(reader, join.this, side, ctes))
    introduced = len(names.sources) - 1
    found = _using(join, names, introduced, tests=tests)
    if (on := join.args.get("on")) is not None:
        found += clauses.equalities(on, names, introduced=introduced)
    if tests:  # its names end with its ON clause
        names.sources[introduced] = replace(names.sources[introduced], side=Side.TEST)
    elif side is Side.FULL:
        for e in found:
            ends = (e.left, e.right) if e.right.source == introduced else (e.right, e.left)
            if ends[1].source == introduced and not e.null_safe:
                names.merge(*ends)
    return found


def _using(join: exp.Join, names: Names, introduced: int, *, tests: bool) -> list[Equality]:
    found, merged = list[Equality](), dict[str, Origin]()
    for column in join.args.get("using") or ():
        before = replace(names, sources=names.sources[:introduced])
        left, right = before.unqualified(column.name), names.within(introduced, column.name)
        if left is None or right is None:
            raise Unsupported(f"USING ({column.name}) does not name one column on each side")
        found.append(Equality(left, right, False, introduced))
        if tests:
            continue
        names.absorbed |= {left, right}
        value = right if join.side == "RIGHT" else left
        merged[column.name.lower()] = names.merge(left, right) if join.side == "FULL" else value
    names.using = merged | {k: o for k, o in names.using.items() if k not in merged}
    return found


def _source(reader: Reader, node: exp.Expr, side: Side, ctes: Ctes) -> Source:
    alias = node.args.get("alias")
    name = node.alias.lower()
    renamed = tuple(c.name for c in alias.columns) if alias is not None else ()
    if isinstance(node, exp.Subquery):
        check_parts(node, SUBQUERY_PARTS, "a subquery")
        if not isinstance(node.this, exp.Query):
            raise Unsupported(f"a join in parentheses is not followed: {shown(node)}")
        level = rename(reader.query(node.this, ctes), renamed)
        return Source((name,), tuple(o.name for o in level.outputs), side, level=level)
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        raise Unsupported(f"{shown(node)} is no table")
    check_parts(node, TABLE_PARTS, shown(node))
    if not node.db and (cte := ctes.get(node.name.lower())) is not None:
        reader.expanding(node.name)
        level = rename(rename(reader.query(cte.query, cte.visible), cte.columns), renamed)
        return Source((name or node.name.lower(),), tuple(o.name for o in level.outputs), side, level=level)
    if renamed:
        raise Unsupported(f"{shown(node)} renames the columns of a table; rename them in the SELECT list")
    reference, columns = reader.leaf(node)
    parts = (name,) if name else tuple(p.name.lower() for p in node.parts)
    return Source(parts, columns, side, reference=reference)


def rename(query: Level | Union, columns: tuple[str, ...]) -> Level | Union:
    """`query` with a list of column names behind its alias."""
    if not columns:
        return query
    if len(columns) != len(query.outputs):
        raise Unsupported(f"a list of {len(columns)} column names for {len(query.outputs)} columns")
    renamed = zip(query.outputs, columns, strict=True)
    return replace(query, outputs=tuple(replace(o, name=c) for o, c in renamed))
