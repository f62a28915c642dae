"""A Great Expectations suite over a Spark DataFrame, in the session that is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.quality.gx import validate
from headrace.quality.suites import Suite, load_suite

pytestmark = pytest.mark.spark

SUITE = """\
checks:
  - type: expect_column_values_to_not_be_null
    kwargs: {column: user_id}
  - type: expect_column_values_to_be_between
    kwargs: {column: cnt, min_value: 1}
    severity: warning
    name: plausible
  - type: expect_compound_columns_to_be_unique
    kwargs: {column_list: [user_id, logdate]}
  - type: expect_table_row_count_to_be_between
    kwargs: {min_value: 1}
  - type: unexpected_rows_expectation
    kwargs: {unexpected_rows_query: "SELECT * FROM {batch} WHERE cnt < 0"}
    name: no_negative
"""


def suite(directory: Path, text: str = SUITE) -> Suite:
    path = directory / "t.checks.yml"
    path.write_text(text)
    return load_suite(path)


def test_every_expectation_has_its_own_verdict(spark: SparkSession, tmp_path: Path) -> None:
    rows = [(1, "2026112010", 1), (2, "2026112010", 0), (2, "2026112010", -3), (None, "2026112011", 4)]
    frame = spark.createDataFrame(rows, "user_id bigint, logdate string, cnt bigint")
    results = validate(frame, suite(tmp_path), table="dws.t")
    assert [(r.constraint, r.passed, r.violations, r.on_violation) for r in results] == [
        ("expect_column_values_to_not_be_null__user_id", False, 1, "FAIL"),
        ("plausible", False, 2, "WARN"),
        ("expect_compound_columns_to_be_unique__user_id__logdate", False, 2, "FAIL"),
        ("expect_table_row_count_to_be_between", True, 0, "FAIL"),
        ("no_negative", False, 1, "FAIL"),
    ]
    assert [r.sample for r in results] == [
        [{"user_id": None}],
        [{"cnt": 0}, {"cnt": -3}],
        [{"user_id": 2, "logdate": "2026112010"}] * 2,
        [],
        [{"user_id": 2, "logdate": "2026112010", "cnt": -3}],
    ]
    assert [r.observed for r in results[3:]] == [4, 1]
    assert {r.rows for r in results} == {4}
    assert not frame.is_cached
    assert SparkSession.getActiveSession() is spark


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [("{colum: a}", "cannot be evaluated.*colum"), ("{column: nope}", "cannot be evaluated.*nope")],
)
def test_wrong_kwargs_are_named_with_their_place(
    spark: SparkSession, tmp_path: Path, kwargs: str, message: str
) -> None:
    good = "  - type: expect_column_values_to_not_be_null\n    kwargs: {column: a}\n    name: good\n"
    text = f"checks:\n  - type: expect_column_values_to_not_be_null\n    kwargs: {kwargs}\n{good}"
    frame = spark.createDataFrame([(1,)], "a bigint")
    wrong, other = validate(frame, suite(tmp_path, text), table="dws.t")
    assert re.search(rf"t\.checks\.yml:2:5: .*{message}", wrong.error or "") and not wrong.passed
    assert (other.constraint, other.passed, other.error) == ("good", True, None)  # it counts all the same
