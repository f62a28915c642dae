"""Which expectations hold before rows are committed: the critical ones. Imports no GX.

What GX asks of each row alone is asked of a micro-batch in Spark's own words, since a run of GX takes longer
than the micro-batch may; what it asks of many rows together is asked by GX of what a batch is about to write.
Semantics are those of GX 1.24's metrics for Spark, `expectations/metrics/column_map_metrics`: NULLs pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from headrace.errors import Location
from headrace.quality.suites import Expectation, Severity, Suite
from headrace.spec.sql.literals import quoted, text_literal


@dataclass(frozen=True)
class RowRule:
    """A critical expectation of each row alone.

    Args:
        holds: Spark SQL expression, true for a row that it holds for.
    """

    name: str
    type: str
    column: str
    holds: str
    location: Location


@dataclass(frozen=True)
class Blocking:
    """The critical expectations of a suite.

    Args:
        rows: those of each row alone.
        sets: those of many rows together.
    """

    rows: tuple[RowRule, ...] = ()
    sets: tuple[Expectation, ...] = ()


def blocking(suite: Suite, key: Sequence[str]) -> Blocking:
    """What of the suite holds before a commit.

    Args:
        key: of the table: what says no more than that it is unique is not asked again.
    """
    critical = [e for e in suite.expectations if e.severity is Severity.CRITICAL and not _of_key(e, key)]
    of_rows, sets = list[RowRule](), list[Expectation]()
    for expectation in critical:
        if (holds := _holds(expectation)) is None:
            sets.append(expectation)
        else:
            column = str(expectation.kwargs["column"])
            of_rows.append(RowRule(expectation.name, expectation.type, column, holds, expectation.location))
    return Blocking(tuple(of_rows), tuple(sets))


def _of_key(expectation: Expectation, key: Sequence[str]) -> bool:
    kwargs = expectation.kwargs
    if expectation.type == "expect_compound_columns_to_be_unique":
        return bool(key) and set(key) <= set(kwargs.get("column_list") or ())
    return expectation.type == "expect_column_values_to_be_unique" and [kwargs.get("column")] == list(key)


def _holds(expectation: Expectation) -> str | None:
    """None where it is not of each row alone, or is not surely the same in SQL: then GX is asked."""
    form = _FORMS.get(expectation.type)
    kwargs = dict(expectation.kwargs)
    if form is None or kwargs.pop("mostly", 1) != 1:
        return None
    condition = kwargs.pop("row_condition", None)
    if kwargs.pop("condition_parser", "spark") != "spark" or not isinstance(condition, str | None):
        return None
    column = kwargs.pop("column", None)
    if not isinstance(column, str) or not kwargs.keys() <= form.kwargs:
        return None
    text = form.build(quoted(column), kwargs)
    if text is None:
        return None
    return text if condition is None else f"NOT coalesce(({condition}), false) OR ({text})"


Build = Callable[[str, Mapping[str, Any]], str | None]
"""Makes an expression of a quoted column and kwargs; None where it cannot be said."""


@dataclass(frozen=True)
class _Form:
    """How one type is said in SQL.

    Args:
        kwargs: those that are understood, beside the column's.
        build: the expression.
    """

    kwargs: frozenset[str]
    build: Build


def _between(value: str, kwargs: Mapping[str, Any]) -> str | None:
    bounds = []
    for name, loose, strict in (("min", ">=", ">"), ("max", "<=", "<")):
        bound = kwargs.get(f"{name}_value")
        if bound is not None:
            literal = _literal(bound)
            if literal is None or isinstance(bound, str):  # GX takes no text, or reads a time in it
                return None
            bounds.append(f"{value} {strict if kwargs.get(f'strict_{name}') else loose} {literal}")
    return f"({' AND '.join(bounds)})" if bounds else None


def _in_set(column: str, kwargs: Mapping[str, Any]) -> str | None:
    values = kwargs.get("value_set")
    literals = [_literal(v) for v in values] if isinstance(values, list) else []
    if not literals or None in literals or len({type(v) for v in values or ()}) > 1:
        return None
    return f"{column} IN ({', '.join(map(str, literals))})"


def _regex(column: str, kwargs: Mapping[str, Any]) -> str | None:
    pattern = kwargs.get("regex")
    return f"{column} RLIKE {_literal(pattern)}" if isinstance(pattern, str) else None


def _length(column: str, kwargs: Mapping[str, Any]) -> str | None:
    length = kwargs.get("value")
    return f"length({column}) = {length}" if isinstance(length, int) else None


def _negated(build: Build) -> Build:
    def built(column: str, kwargs: Mapping[str, Any]) -> str | None:
        text = build(column, kwargs)
        return text and f"NOT {text}"

    return built


def _of_values(kwargs: frozenset[str], build: Build) -> _Form:
    """Of what a column has: NULLs pass."""

    def built(column: str, given: Mapping[str, Any]) -> str | None:
        text = build(column, given)
        return text and f"{column} IS NULL OR {text}"

    return _Form(kwargs, built)


_BOUNDS = frozenset({"min_value", "max_value", "strict_min", "strict_max"})
_SET, _REGEX = frozenset({"value_set"}), frozenset({"regex"})
_FORMS = {
    "expect_column_values_to_not_be_null": _Form(frozenset(), lambda c, k: f"{c} IS NOT NULL"),
    "expect_column_values_to_be_null": _Form(frozenset(), lambda c, k: f"{c} IS NULL"),
    "expect_column_values_to_be_between": _of_values(_BOUNDS, _between),
    "expect_column_values_to_be_in_set": _of_values(_SET, _in_set),
    "expect_column_values_to_not_be_in_set": _of_values(_SET, _negated(_in_set)),
    "expect_column_values_to_match_regex": _of_values(_REGEX, _regex),
    "expect_column_values_to_not_match_regex": _of_values(_REGEX, _negated(_regex)),
    "expect_column_value_lengths_to_be_between": _of_values(
        _BOUNDS, lambda c, k: _between(f"length({c})", k)
    ),
    "expect_column_value_lengths_to_equal": _of_values(frozenset({"value"}), _length),
}


def _literal(value: Any) -> str | None:
    """As Spark SQL has the value that GX hands to Spark; None for what has no literal of the same type."""
    match value:
        case bool():
            return str(value).lower()
        case int():
            return str(value)
        case float():
            return f"{value!r}D" if value == value and abs(value) != float("inf") else None
        case str():
            return text_literal(value)
        case datetime():
            return f"timestamp'{value.isoformat(' ')}'"
        case date():
            return f"date'{value.isoformat()}'"
    return None
