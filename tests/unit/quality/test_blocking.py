"""Which expectations hold before a commit, and how they are said in SQL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.errors import Location
from headrace.quality.blocking import blocking
from headrace.quality.suites import Expectation, Severity, Suite

FILE = Path("t.checks.yml")


def expectation(kind: str, severity: Severity = Severity.CRITICAL, **kwargs: Any) -> Expectation:
    return Expectation(kind, f"expect_{kind}", kwargs, severity, Location(FILE, 2))


def sql(kind: str, **kwargs: Any) -> str | None:
    found = blocking(Suite(FILE, (expectation(kind, **kwargs),)), ("id",))
    assert len(found.rows) + len(found.sets) == 1
    return found.rows[0].holds if found.rows else None


@pytest.mark.parametrize(
    ("kind", "kwargs", "holds"),
    [
        ("column_values_to_not_be_null", {}, "`a` IS NOT NULL"),
        ("column_values_to_be_between", {"min_value": 0, "strict_min": True}, "`a` IS NULL OR (`a` > 0)"),
        (
            "column_values_to_be_between",
            {"min_value": 0.5, "max_value": 9},
            "`a` IS NULL OR (`a` >= 0.5D AND `a` <= 9)",
        ),
        ("column_values_to_be_in_set", {"value_set": ["x", "it's"]}, r"`a` IS NULL OR `a` IN ('x', 'it\'s')"),
        ("column_values_to_not_be_in_set", {"value_set": [1, 2]}, "`a` IS NULL OR NOT `a` IN (1, 2)"),
        ("column_values_to_match_regex", {"regex": r"^\d$"}, r"`a` IS NULL OR `a` RLIKE '^\\d$'"),
        (
            "column_value_lengths_to_be_between",
            {"max_value": 3},
            "`a` IS NULL OR (length(`a`) <= 3)",
        ),
        (
            "column_values_to_be_null",
            {"row_condition": "b > 1"},
            "NOT coalesce((b > 1), false) OR (`a` IS NULL)",
        ),
    ],
)
def test_what_is_of_each_row_is_said_in_sql(kind: str, kwargs: dict[str, Any], holds: str) -> None:
    assert sql(kind, column="a", **kwargs) == holds


@pytest.mark.parametrize(
    ("kind", "kwargs"),
    [
        ("column_mean_to_be_between", {"column": "a", "min_value": 1}),
        ("column_values_to_not_be_null", {"column": "a", "mostly": 0.9}),
        ("column_values_to_not_be_null", {"column": "a", "condition_parser": "pandas"}),
        ("column_values_to_be_between", {"column": "a"}),
        ("column_values_to_be_between", {"column": "a", "min_value": [1]}),
        ("column_values_to_be_in_set", {"column": "a", "value_set": [1, "x"]}),
        ("column_values_to_be_in_set", {"column": "a", "value_set": []}),
        ("column_values_to_not_be_null", {"column": "a", "other": 1}),
        ("column_values_to_be_unique", {"column": "a"}),
        ("compound_columns_to_be_unique", {"column_list": ["a", "b"]}),
        ("table_row_count_to_be_between", {"min_value": 1}),
    ],
)
def test_the_others_are_gx_own(kind: str, kwargs: dict[str, Any]) -> None:
    assert sql(kind, **kwargs) is None


def test_only_what_is_critical_and_not_the_key_itself_blocks() -> None:
    suite = Suite(
        FILE,
        (
            expectation("column_values_to_not_be_null", Severity.WARNING, column="a"),
            expectation("column_values_to_be_unique", column="id"),
            expectation("compound_columns_to_be_unique", column_list=["id", "a"]),
        ),
    )
    found = blocking(suite, ("id",))
    assert not found.rows and not found.sets
