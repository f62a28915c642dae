"""What the SQL in a suite may be: it looks at the rows that are checked, and at nothing else.

GX hands a `row_condition`, and the queries of its SQL expectations, to Spark as they are, in the warehouse
server.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from headrace.spec.sql.programs import REFLECTION

BATCH = "{batch}"
"""GX's word for the rows that are checked, in a query."""

_ROWS = "batch"
_ELSEWHERE = frozenset(
    {"expect_table_row_count_to_equal_other_table", "expect_query_results_to_match_comparison"}
)
"""Types that read another table or another database."""


def refused(kind: str, kwargs: Mapping[str, Any]) -> str | None:
    """Why an expectation is not evaluated here; None where it may be.

    Args:
        kind: its type.
    """
    if kind in _ELSEWHERE:
        return f"`{kind}` reads other tables than the one that is checked"
    for name, found in kwargs.items():
        if isinstance(found, str) and (name == "row_condition" or name.endswith("_query")):
            why = _expression(found) if name == "row_condition" else _query(found)
            if why is not None:
                return f"`{name}`: {why}"
    return None


def _expression(text: str) -> str | None:
    try:
        queries = sqlglot.parse(f"SELECT ({text}\n)", dialect="spark")
    except SqlglotError as error:
        return f"it cannot be read: {_first(error)}"
    if len(queries) != 1 or not isinstance(query := queries[0], exp.Select):
        return "it is no expression"
    if len(query.expressions) != 1 or len([a for a in query.args.values() if a]) != 1:
        return "it is no expression"
    if any(inner is not query for inner in query.find_all(exp.Query)):
        return "it has a subquery"
    return next(_programs(query), None)


def _query(text: str) -> str | None:
    try:
        queries = sqlglot.parse(text.replace(BATCH, _ROWS), dialect="spark")
    except SqlglotError as error:
        return f"it cannot be read: {_first(error)}"
    if len(queries) != 1 or not isinstance(query := queries[0], exp.Query):
        return "it is not one SELECT"
    named = {_ROWS, *(cte.alias.lower() for cte in query.find_all(exp.CTE))}
    for table in query.find_all(exp.Table):
        if isinstance(table.this, exp.Func) or table.sql(dialect="spark").split(" ")[0].lower() not in named:
            return (
                f"it reads `{table.sql(dialect='spark')}`: only {BATCH}, the rows that are checked, is there"
            )
    return next(_programs(query), None)


def _programs(query: exp.Expr) -> Iterator[str]:
    """Parts that do more than look at rows."""
    for node in query.walk():
        if isinstance(node, exp.DML | exp.DDL | exp.Command | exp.Into):
            yield "it writes"
        if isinstance(node, exp.QueryTransform):
            yield "`TRANSFORM … USING` runs a program"
        if isinstance(node, exp.Parameter | exp.Placeholder):
            yield "it has a parameter"
        if isinstance(node, exp.Anonymous) and node.name.lower() in REFLECTION:
            yield f"`{node.name.lower()}` runs Java code inside the server"


def _first(error: SqlglotError) -> str:
    return str(error).strip().splitlines()[0]
