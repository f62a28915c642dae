"""Name the expressions whose result two runs over the same rows may disagree on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from headrace.errors import Location, SpecError
from headrace.planner.sql import functions
from headrace.planner.sql.arguments import Types, argument, is_sum, sums
from headrace.planner.sql.extract import Upstream, extract
from headrace.planner.sql.limits import limit_windows, limited
from headrace.planner.sql.uniqueness import total_orders
from headrace.spec.model import TableSpec
from headrace.spec.sql.programs import REFLECTION
from headrace.spec.sql.query import query_tokens

_INEXACT = (
    *(exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.Variance, exp.VariancePop, exp.Corr),
    *(exp.CovarPop, exp.CovarSamp, exp.Skewness, exp.Kurtosis),
)
_ORDERED = (exp.RowNumber, exp.Lag, exp.Lead, exp.NthValue, exp.Ntile)
_PICKS = (exp.First, exp.Last, exp.FirstValue, exp.LastValue, exp.AnyValue)
_LISTS = (exp.ArrayAgg, exp.ArrayUniqueAgg, exp.GroupConcat)


@dataclass(frozen=True)
class Finding:
    """One expression of a layer file. A table with a finding of level `error` is not loaded."""

    code: str
    level: Literal["error", "warning"]
    expression: str
    location: Location
    message: str
    suggestion: str

    def __str__(self) -> str:
        return f"{self.location}: {self.code}: {self.message}: {self.expression}; {self.suggestion}"

    def error(self) -> SpecError:
        """The finding as loading raises it."""
        return SpecError(f"{self.code}: {self.message}: {self.expression}", self.location, self.suggestion)


def lint(
    spec: TableSpec,
    *,
    keys: Mapping[Upstream, tuple[str, ...]] | None = None,
    columns: Mapping[Upstream, tuple[str, ...]] | None = None,
    types: Types | None = None,
) -> list[Finding]:
    """All findings of a table, in the order of its text.

    Args:
        keys, columns: of the upstreams. With both, an order is known to be total or not: without them
            ORDER_NOT_TOTAL is a warning.
        types: column types of the upstreams, as far as they are known.
    """
    at = _locator(spec)
    total: dict[str, bool] = {}
    if keys and columns and spec.query_ast.find(exp.Order, exp.Limit):
        total = total_orders(extract(limit_windows(spec), keys, columns, types))
    found = [f for rule in _RULES for f in rule(spec.query_ast, at)]
    found += _typed(spec, types or {}, at)
    found += _orders(spec.query_ast, at, total)
    found += _limit_orders(spec.query_ast, at, total)
    found.sort(key=lambda f: (f.location.line, f.location.column))
    return found + list(_constraints(spec))


Locator = Callable[[exp.Expr], Location]


def _locator(spec: TableSpec) -> Locator:
    """Where a node stands. sqlglot keeps no position of keywords such as CURRENT_DATE: search for those."""
    tokens = query_tokens(spec.query)

    def locate(node: exp.Expr) -> Location:
        starts = [n.meta["start"] for n in node.walk() if "start" in n.meta]
        if not starts:
            word = type(node).__name__.lower()
            starts = [t.start for t in tokens if t.text.lower().replace("_", "") == word][:1]
        return spec.locate(min(starts, default=0))

    return locate


def _finding(
    code: str, level: Literal["error", "warning"], node: exp.Expr, at: Locator, message: str, suggestion: str
) -> Finding:
    return Finding(code, level, node.sql(dialect="spark", comments=False), at(node), message, suggestion)


def _volatile(root: exp.Expr, at: Locator) -> Iterator[Finding]:
    for node in root.walk():
        if not functions.is_volatile(node):
            continue
        if isinstance(node, exp.Anonymous) and node.name.lower() in REFLECTION:
            message = "a call into the JVM may answer anything, stream and batch cannot be proved equal"
            yield _finding("REFLECTION", "error", node, at, message, "use a built-in function")
            continue
        message = "its value differs from run to run, so stream and batch cannot be equal"
        suggestion = "use a column of the row (such as its update time), or ${start_date} and ${end_date}"
        yield _finding("VOLATILE", "error", node, at, message, suggestion)


def _programs(root: exp.Expr, at: Locator) -> Iterator[Finding]:
    for node in root.find_all(exp.QueryTransform):
        message = "it runs a program as the warehouse server"
        yield _finding("PROGRAM", "error", node, at, message, "use built-in functions")


def _unknown(root: exp.Expr, at: Locator) -> Iterator[Finding]:
    for node in root.walk():
        if functions.is_unknown(node):
            message = "nothing is known about this function, so the table is refreshed in full"
            yield _finding("UNKNOWN_FUNCTION", "warning", node, at, message, "use a built-in function")


def _floats(root: exp.Expr, at: Locator) -> Iterator[Finding]:
    for node in root.walk():
        if isinstance(node, _INEXACT) or (isinstance(node, exp.Anonymous) and node.name.lower() == "std"):
            message = "computed in floating point, its last digits depend on the order of the rows"
            yield _finding(
                "FLOAT_AGGREGATE", "error", node, at, message, "store its COUNT, SUM and SUM of squares"
            )
        elif is_sum(node) and _is_float(argument(node)):
            yield _float_sum(node, at, "floating point addition depends on the order of the rows")


def _float_sum(node: exp.Expr, at: Locator, message: str) -> Finding:
    return _finding(
        "FLOAT_AGGREGATE",
        "error",
        node,
        at,
        message,
        f"{_with_cast(node, 's')} with the scale s that you need",
    )


def _with_cast(node: exp.Expr, scale: str) -> str:
    """The aggregate over a decimal: its argument, or what the argument casts to a float, cast to that."""
    inner = argument(node)
    distinct = isinstance(inner, exp.Distinct) and len(inner.expressions) == 1
    value = inner.expressions[0] if isinstance(inner, exp.Distinct) and distinct else inner
    if isinstance(value, exp.Cast) and value.to.is_type("float", "double"):
        value = value.this
    name = node.name if isinstance(node, exp.Anonymous) else type(node).__name__
    text = value.sql(dialect="spark", comments=False) if value is not None else "x"
    return f"{name.upper()}({'DISTINCT ' if distinct else ''}CAST({text} AS DECIMAL(38, {scale})))"


def _typed(spec: TableSpec, types: Types, at: Locator) -> Iterator[Finding]:
    """SUM and AVG that the types of columns make inexact, or that may not fit."""
    for node, kind in sums(spec, types):
        if kind == "bigint":
            if not isinstance(node, exp.Avg):
                message = "a sum of BIGINT may overflow in batch where single changes do not"
                suggestion = _with_cast(node, "0")
                yield _finding("BIGINT_SUM", "warning", node, at, message, suggestion)
        elif not _is_float(argument(node)):
            message = f"its argument is a {kind.upper()}, whose addition depends on the order of the rows"
            yield _float_sum(node, at, message)


def _is_float(node: exp.Expr | None) -> bool:
    """Whether a CAST or a literal makes the value a float, and none above it makes it exact again."""
    if isinstance(node, exp.Cast):
        return bool(node.to.is_type("float", "double"))
    if isinstance(node, exp.Literal):
        return not node.is_string and "e" in node.name.lower()
    if isinstance(node, exp.Predicate):
        return False
    if isinstance(node, exp.Binary | exp.Paren | exp.Neg | exp.Distinct | exp.Coalesce | exp.Case | exp.If):
        return any(_is_float(child) for child in node.iter_expressions())
    return False


def _limits(root: exp.Expr, at: Locator) -> Iterator[Finding]:
    for node in root.find_all(exp.Limit, exp.Offset, exp.Fetch):
        query = node.parent
        if query is None or query.args.get("order") or node.text("expression").upper() == "ALL":
            continue
        message = "without ORDER BY it keeps whichever rows come first"
        yield _finding(
            "LIMIT_WITHOUT_ORDER", "error", node, at, message, "add an ORDER BY that ends in a key"
        )


def _unordered(root: exp.Expr, at: Locator) -> Iterator[Finding]:
    for node in root.find_all(*_PICKS, *_LISTS):
        if functions.windowed(node):
            continue
        if isinstance(node, _PICKS):
            suggestion = (
                "MAX_BY(value, time) or MIN_BY, by a column that is unique in the group; or MIN and MAX"
            )
            message = "which row comes first in a group is not defined"
        elif isinstance(node.parent, exp.ArraySort | exp.WithinGroup) or node.find(exp.Order):
            continue
        else:
            message, suggestion = "the order of its elements is not defined", "wrap it in SORT_ARRAY(…)"
        yield _finding("UNORDERED", "error", node, at, message, suggestion)


def _limit_orders(root: exp.Expr, at: Locator, total: Mapping[str, bool]) -> Iterator[Finding]:
    for select, window in limited(root):
        if total.get(window):
            continue
        text = " ".join(
            select.args[part].sql(dialect="spark", comments=False).strip()
            for part in ("order", "limit", "offset")
            if select.args.get(part)
        )
        message = "of rows that tie in its ORDER BY it keeps whichever come first"
        found = _finding(
            "ORDER_NOT_TOTAL",
            "error" if window in total else "warning",
            select.args["order"],
            at,
            message,
            "end its ORDER BY in the key of the rows it reads",
        )
        yield replace(found, expression=text)


def _orders(root: exp.Expr, at: Locator, total: Mapping[str, bool]) -> Iterator[Finding]:
    declared = {w.name.lower(): w for s in root.find_all(exp.Select) for w in s.args.get("windows") or ()}
    for node in root.find_all(exp.Window):
        if isinstance(node.parent, exp.Select) and node.arg_key == "windows":
            continue
        base = declared.get(node.alias.lower())
        parts = [node, base] if base is not None else [node]
        if not any(w.args.get("partition_by") for w in parts):
            message = (
                "without PARTITION BY every change may touch every row, so the table is refreshed in full"
            )
            yield _finding("WINDOW_WITHOUT_PARTITION", "warning", node, at, message, "add PARTITION BY")
        inner = node.this.this if isinstance(node.this, exp.IgnoreNulls | exp.RespectNulls) else node.this
        spec = node.args.get("spec")
        by_rows = spec is not None and str(spec.args.get("kind")).upper() == "ROWS"
        if not isinstance(inner, (*_ORDERED, *_PICKS, *_LISTS)) and not by_rows:
            continue
        if not any(w.args.get("order") for w in parts):
            message = "without ORDER BY the order of rows is not defined"
            yield _finding(
                "WINDOW_WITHOUT_ORDER", "error", node, at, message, "add an ORDER BY that ends in a key"
            )
        elif not total.get(text := node.sql(dialect="spark", comments=False)):
            message = "rows that tie in its ORDER BY may change places from run to run"
            suggestion = "end its ORDER BY in the key of the rows it reads; RANK() gives ties the same number"
            level: Literal["error", "warning"] = "error" if text in total else "warning"
            yield _finding("ORDER_NOT_TOTAL", level, node, at, message, suggestion)


def _constraints(spec: TableSpec) -> Iterator[Finding]:
    for constraint in spec.constraints:
        try:
            parsed = sqlglot.parse_one(constraint.expression, read="spark")
        except SqlglotError:
            continue  # loading reports it
        at = _locator(spec)
        found = (f for rule in (_volatile, _programs) for f in rule(parsed, at))
        yield from (replace(f, location=constraint.location) for f in found)


_RULES = (_volatile, _programs, _unknown, _floats, _limits, _unordered)
