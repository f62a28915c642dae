"""TOP_N: `ORDER BY … LIMIT n` over a query whose rows can be followed one by one.

The table holds the first n rows only. After a change the rows it touches are computed again; with the
untouched rows of the table they are all that can rank at or above the old last row. So as long as n of them
do, they are the first n of the whole query; otherwise rows that nobody holds come up, and the query runs in
full.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from sqlglot import exp
from sqlglot.tokens import TokenType

from headrace.planner.sql.facts import QueryFacts, Refusal, shortened
from headrace.planner.strategies import affected_keys, affected_partitions
from headrace.planner.strategies.affected_keys import AffectedKeys
from headrace.planner.strategies.affected_partitions import AffectedPartitions
from headrace.spec.model import TableSpec
from headrace.spec.sql.query import query_tokens


@dataclass(frozen=True)
class TopN:
    """The first `limit` rows by `order`.

    Attributes:
        inner: how the rows of the query without its LIMIT are found.
        order: ORDER BY terms over the table's own columns; they contain its primary key, so no two tie.
        unlimited: the table's definition without the LIMIT.
    """

    name: ClassVar[str] = "TOP_N"
    inner: AffectedKeys | AffectedPartitions
    limit: int
    order: tuple[str, ...]
    unlimited: TableSpec

    def describe(self, facts: QueryFacts) -> str:
        return f"the first {self.limit} rows by {', '.join(self.order)}: {self.inner.describe(facts)}"


def without_limit(spec: TableSpec) -> TableSpec | None:
    """The definition without the LIMIT that ends its text; None where there is none, or an OFFSET."""
    tree = spec.query_ast
    if (
        tree.args.get("limit") is None
        or tree.args.get("order") is None
        or tree.args.get("offset") is not None
    ):
        return None
    limits = [t for t in query_tokens(spec.query) if t.token_type is TokenType.LIMIT]
    if not limits or spec.query[limits[-1].end + 1 :].strip().rstrip(";").strip().isdigit() is False:
        return None
    bare = tree.copy()
    bare.set("limit", None)
    return replace(spec, query=spec.query[: limits[-1].start], query_ast=bare)


def match(spec: TableSpec, unlimited: TableSpec, facts: QueryFacts) -> TopN | Refusal:
    """TOP_N holds where the order is total and the rows of the query without LIMIT can be followed.

    Args:
        facts: of the query without its LIMIT.
    """
    if any(c.on_violation.removes_rows for c in spec.constraints):
        return Refusal("a constraint removes rows after the LIMIT")
    count = spec.query_ast.args["limit"].expression
    if not isinstance(count, exp.Literal) or not count.is_int:
        return Refusal(f"LIMIT {shortened(count.sql(dialect='spark'))} is no number")
    terms = [_term(ordered, facts) for ordered in spec.query_ast.args["order"].expressions]
    for term in terms:
        if isinstance(term, Refusal):
            return term
    order = tuple(t for t in terms if not isinstance(t, Refusal))
    named = {name.lower() for name, _ in order}
    if not {k.lower() for k in facts.primary_key} <= named:
        return Refusal("the ORDER BY of the LIMIT does not contain the primary key: rows may tie")
    inner: AffectedKeys | AffectedPartitions | Refusal = affected_keys.match(facts)
    if isinstance(inner, Refusal):
        reason = inner
        inner = affected_partitions.match(facts)
        if isinstance(inner, Refusal):
            return reason
    return TopN(inner, int(count.name), tuple(text for _, text in order), unlimited)


def _term(ordered: exp.Expr, facts: QueryFacts) -> tuple[str, str] | Refusal:
    """(column, SQL) of an ORDER BY term that is a column of the table."""
    column = ordered.this if isinstance(ordered, exp.Ordered) else ordered
    names = [c for c in facts.columns if c.lower() == column.name.lower()]
    if not isinstance(column, exp.Column) or column.table or len(names) != 1:
        return Refusal(
            f"the ORDER BY term {shortened(ordered.sql(dialect='spark'))} is no column of the table"
        )
    direction = "DESC" if ordered.args.get("desc") else "ASC"
    nulls = "FIRST" if ordered.args.get("nulls_first") else "LAST"
    return names[0], f"`{names[0]}` {direction} NULLS {nulls}"
