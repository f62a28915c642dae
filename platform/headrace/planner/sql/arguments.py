"""The columns behind an expression: what SUM and AVG really add, through every subquery."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, traverse_scope

from headrace.spec.model import SourceTable, TableName, TableSpec

Types = Mapping[TableName | SourceTable, Mapping[str, str]]
"""Spark's names of the column types of each upstream. Columns whose type is not known are left out."""

_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_FLOATS = ("FLOAT", "DOUBLE")
_SAME = {"BYTE": "TINYINT", "SHORT": "SMALLINT", "INTEGER": "INT", "LONG": "BIGINT", "REAL": "FLOAT"}
_PASSING = (exp.Binary, exp.Paren, exp.Neg, exp.Abs, exp.Distinct, exp.Coalesce)
_PICKING = (exp.Max, exp.Min, exp.AnyValue)
_ADDING = frozenset({"mean", "try_avg", "try_sum"})


def is_sum(node: exp.Expr) -> bool:
    """Whether the function adds its argument over rows."""
    return isinstance(node, exp.Sum | exp.Avg) or (
        isinstance(node, exp.Anonymous) and node.name.lower() in _ADDING
    )


def argument(node: exp.Expr) -> exp.Expr | None:
    """What `node`, which `is_sum`, adds."""
    if isinstance(node, exp.Anonymous):
        return node.expressions[0] if node.expressions else None
    found = node.this
    return found if isinstance(found, exp.Expr) else None


def sums(spec: TableSpec, types: Types) -> Iterator[tuple[exp.Expr, str]]:
    """Every SUM and AVG of a table's query whose argument's type follows from a column's declared type.

    Yields:
        the node of `spec.query_ast`, and `float`, `double` or `bigint`. What is computed by anything but
        arithmetic, and what sqlglot cannot resolve, is left out.
    """
    schema = {str(name): dict(columns) for name, columns in types.items() if isinstance(name, TableName)}
    nested: dict[str, object] = {
        layer: {t: c for n, c in schema.items() for own, _, t in [n.partition(".")] if own == layer}
        for layer in {name.partition(".")[0] for name in schema}
    }
    found = {n.meta["start"]: n for n in spec.query_ast.walk() if is_sum(n) and "start" in n.meta}
    if not found or not nested:
        return
    try:
        query = qualify(
            spec.query_ast.copy(),
            schema=nested,
            dialect="spark",
            quote_identifiers=False,
            validate_qualify_columns=False,
        )
        scopes = traverse_scope(query)
    except SqlglotError:
        return
    for scope in scopes:
        for node in filter(is_sum, scope.walk()):
            kind = _type(argument(node), scope, schema)
            if kind in ("BIGINT", *_FLOATS) and node.meta.get("start") in found:
                yield found[node.meta["start"]], kind.lower()


def _type(node: exp.Expr | None, scope: Scope, schema: Mapping[str, Mapping[str, str]]) -> str | None:
    """A number's type, None where it is neither an integer nor floating point, or not known."""
    if isinstance(node, exp.Cast):
        return _named(node.to.sql("spark"))
    if isinstance(node, exp.Literal):
        return "INT" if node.is_int else None
    if isinstance(node, exp.Count):
        return "BIGINT"
    if isinstance(node, exp.Column):
        return _column(node, scope, schema)
    parts: list[exp.Expr | None] = []
    if isinstance(node, exp.Case):
        parts = [
            *(branch.args.get("true") for branch in node.args.get("ifs") or ()),
            node.args.get("default"),
        ]
    elif isinstance(node, exp.If):
        parts = [node.args.get("true"), node.args.get("false")]
    elif isinstance(node, (*_PASSING, *_PICKING)) and not isinstance(node, exp.Predicate):
        parts = list(node.iter_expressions())
    elif node is not None and is_sum(node):
        kind = _type(argument(node), scope, schema)
        return "BIGINT" if kind in _INTEGERS and isinstance(node, exp.Sum) else kind
    kinds = {_type(p, scope, schema) for p in parts if p is not None and not isinstance(p, exp.Null)}
    if kinds & set(_FLOATS):
        return "DOUBLE"
    if None in kinds or not kinds or isinstance(node, exp.Div):
        return None
    return "BIGINT" if "BIGINT" in kinds else "INT"


def _column(node: exp.Column, scope: Scope, schema: Mapping[str, Mapping[str, str]]) -> str | None:
    source = scope.sources.get(node.table)
    if isinstance(source, exp.Table):
        return _named(schema.get(f"{source.db}.{source.name}", {}).get(node.name, ""))
    if isinstance(source, Scope) and isinstance(source.expression, exp.Select):
        for projection in source.expression.expressions:
            if projection.alias_or_name == node.name:
                return _type(projection.unalias(), source, schema)
    return None


def _named(kind: str) -> str | None:
    kind = _SAME.get(kind.upper(), kind.upper())
    return kind if kind in (*_INTEGERS, *_FLOATS) else None
