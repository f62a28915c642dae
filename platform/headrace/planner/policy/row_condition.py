"""Which rows of a stg table, and of the captured table behind it, a condition means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.dialects import Spark
from sqlglot.errors import SqlglotError

from headrace.errors import TerminalError, did_you_mean
from headrace.planner.sql.clauses import shown
from headrace.planner.sql.extract import extract
from headrace.planner.sql.facts import Level, Refusal
from headrace.planner.sql.trace import trace
from headrace.spec.model import TableSpec

_NOT_OF_ONE_ROW = (exp.Query, exp.AggFunc, exp.Window, exp.Placeholder, exp.Parameter)


@dataclass(frozen=True)
class RowCondition:
    """
    Args:
        table: over the table's own columns, in Spark's SQL, as it was written.
        source: over those of the captured table, in PostgreSQL's.
    """

    table: str
    source: str


def row_condition(
    spec: TableSpec, source: tuple[str, ...], names: tuple[str, ...], text: str
) -> RowCondition:
    """Read a condition over columns that a stg table takes from its source as they are.

    The two databases may order or compare some texts differently. Who uses both means rows that either of
    them finds.

    Args:
        source: columns of the captured table.
        names: columns of the stg table.
        text: in Spark's SQL.
    Raises:
        TerminalError: it cannot be read, is not of one row alone, or names a column that is computed or
            unknown.
    """
    try:
        [condition] = Spark().parse_into(exp.Condition, text)
    except SqlglotError:
        condition = None
    if condition is None:
        raise TerminalError(f"the condition cannot be read: {text}. Next: write it as after WHERE")
    if (other := condition.find(*_NOT_OF_ONE_ROW)) is not None:
        raise TerminalError(
            f"`{shown(other)}` is not of one row alone. Next: compare columns of `{spec.name}` with values"
        )
    if (function := condition.find(exp.Anonymous)) is not None:
        raise TerminalError(
            f"`{shown(function)}` is no function that Spark and PostgreSQL share. Next: compare columns of "
            f"`{spec.name}` with values"
        )
    origins = _origins(spec, source, names)
    copied = ", ".join(f"`{n}`" for n, origin in origins.items() if not isinstance(origin, Refusal))
    columns = sorted({column.name.lower() for column in condition.find_all(exp.Column)})
    if not columns:
        raise TerminalError(f"the condition names no column: {text}. Next: name some of {copied}")
    for name in columns:
        if name not in origins:
            raise TerminalError(f"`{spec.name}` has no column `{name}`: {did_you_mean(name, origins)}")
        if isinstance(origin := origins[name], Refusal):
            raise TerminalError(f"{origin.reason}: the source does not have it. Next: name some of {copied}")
    return RowCondition(
        text, condition.transform(_renamed, origins).sql("postgres", identify=True, comments=False)
    )


def _origins(spec: TableSpec, source: tuple[str, ...], names: tuple[str, ...]) -> dict[str, str | Refusal]:
    """Of each column of the table the one that it copies, by its name in lower case."""
    assert spec.source is not None
    root = extract(spec, {}, {spec.source: source, spec.name: names}).root
    refused = Refusal("the query is not followed")
    return {n.lower(): trace(root, n) if isinstance(root, Level) else refused for n in names}


def _renamed(node: exp.Expr, origins: Mapping[str, str | Refusal]) -> exp.Expr:
    if not isinstance(node, exp.Column):
        return node
    return exp.column(exp.to_identifier(str(origins[node.name.lower()]), quoted=True))
