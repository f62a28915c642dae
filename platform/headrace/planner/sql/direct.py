"""Queries simple enough that Arrow gives what Spark would: columns, partition labels of a time, ranges.

Anything else is Spark's to run. Whoever uses this compares both over some rows first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from headrace.spec.model import TableSpec
from headrace.spec.partitions.labels import FIELDS, open_range


@dataclass(frozen=True)
class Value:
    """A column of the source, or the label of a time in it.

    Args:
        pattern: of the label, e.g. `yyyyMMddHH`; None for the column itself.
    """

    column: str
    pattern: str | None = None


@dataclass(frozen=True)
class Bound:
    """`value operator text`: rows where it is not true are left out. `operator`: `<= >= < > =`."""

    value: Value
    operator: str
    text: str


@dataclass(frozen=True)
class Direct:
    """A query: its output columns in order, by name, and its conditions."""

    columns: tuple[tuple[str, Value], ...]
    bounds: tuple[Bound, ...]


_OPERATORS: dict[type[exp.Expression], str] = {
    exp.GTE: ">=", exp.LTE: "<=", exp.GT: ">", exp.LT: "<", exp.EQ: "=",
}  # fmt: skip
_PATTERN = re.compile("(" + "|".join(FIELDS) + r"|[-: ])+")
TIMES = ("timestamp", "timestamp_ntz")


class _Refused(Exception):
    pass


def direct(spec: TableSpec, columns: Mapping[str, str]) -> Direct | None:
    """The query as plain columns and bounds, None where it is more than that.

    Args:
        columns: of the source, with their Spark types.
    """
    query = spec.query_ast
    if spec.constraints or not isinstance(query, exp.Select):
        return None
    allowed = {"kind", "hint", "expressions", "from", "from_", "where"}
    if any(value for key, value in query.args.items() if key not in allowed):
        return None
    if query.args.get("kind") or query.args.get("hint") or len(spec.references) != 1:
        return None
    labels = {}
    if spec.partition_format:
        every = open_range(spec)
        labels = {"start_date": every.start, "end_date": every.end}
    try:
        found = tuple(pair for e in query.expressions for pair in _output(e, columns))
        where = query.args.get("where")
        bounds = tuple(_bounds(where.this, columns, labels)) if where is not None else ()
    except _Refused:
        return None
    names = [name.lower() for name, _ in found]
    return Direct(found, bounds) if len(set(names)) == len(names) else None


def _output(node: exp.Expression, columns: Mapping[str, str]) -> list[tuple[str, Value]]:
    if isinstance(node, exp.Star) and not any(node.args.values()):
        return [(name, Value(name)) for name in columns]
    if isinstance(node, exp.Alias):
        return [(node.alias, _value(node.this, columns))]
    value = _value(node, columns)
    if value.pattern is not None:
        raise _Refused
    return [(node.name, value)]


def _value(node: exp.Expression, columns: Mapping[str, str]) -> Value:
    if isinstance(node, exp.Paren):
        return _value(node.this, columns)
    if isinstance(node, exp.TimeToStr):
        value = _value(time_of(node), columns)
        pattern = pattern_of(node)
        is_time = value.pattern is None and columns[value.column] in TIMES
        if not is_time or not _PATTERN.fullmatch(pattern):
            raise _Refused
        return Value(value.column, pattern)
    if not isinstance(node, exp.Column) or node.name not in columns:
        raise _Refused
    return Value(node.name)


def time_of(label: exp.TimeToStr) -> exp.Expression:
    """What the label is of."""
    time: exp.Expression = label.this.this if isinstance(label.this, exp.TimeStrToTime) else label.this
    return time


def pattern_of(label: exp.TimeToStr) -> str:
    """The format as it was written, "" for none: the parser keeps it in strftime's words."""
    node = label.args.get("format")
    if not isinstance(node, exp.Literal) or not node.is_string:
        return ""
    text = str(node.this).replace("strict", "")
    for ours, theirs in FIELDS.items():
        text = text.replace(theirs, ours)
    return text


def _bounds(node: exp.Expression, columns: Mapping[str, str], labels: Mapping[str, str]) -> list[Bound]:
    if isinstance(node, exp.Paren):
        return _bounds(node.this, columns, labels)
    if isinstance(node, exp.And):
        return _bounds(node.this, columns, labels) + _bounds(node.expression, columns, labels)
    operator = _OPERATORS.get(type(node))
    if operator is None:
        raise _Refused
    value = _value(node.this, columns)
    if value.pattern is None and columns[value.column] != "string":
        raise _Refused
    return [Bound(value, operator, _text(node.expression, labels))]


def _text(node: exp.Expression, labels: Mapping[str, str]) -> str:
    if isinstance(node, exp.Literal) and node.is_string:
        return str(node.this)
    if isinstance(node, exp.Parameter) and node.name in labels:
        return labels[node.name]
    raise _Refused
