"""The SQL in a suite looks at the checked rows, and at nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import SpecError
from headrace.quality.doors import refused
from headrace.quality.suites import load_suite

ROWS, QUERY = "expect_column_values_to_not_be_null", "unexpected_rows_expectation"


@pytest.mark.parametrize(
    ("kind", "kwargs"),
    [
        (ROWS, {"column": "a", "row_condition": "b > 1 AND lower(c) LIKE '%x'"}),
        (QUERY, {"unexpected_rows_query": "SELECT * FROM {batch} WHERE cnt < 0"}),
        (
            QUERY,
            {"unexpected_rows_query": "WITH x AS (SELECT a FROM {batch} b) SELECT a FROM x"},
        ),
    ],
)
def test_what_looks_at_the_rows_is_taken(kind: str, kwargs: dict[str, str]) -> None:
    assert refused(kind, kwargs) is None


@pytest.mark.parametrize(
    ("kind", "kwargs", "says"),
    [
        (ROWS, {"row_condition": "reflect('java.lang.System', 'getenv')"}, "`reflect` runs Java code"),
        (ROWS, {"row_condition": "a IN (SELECT a FROM dws.secret)"}, "it has a subquery"),
        (ROWS, {"row_condition": "a > 1) FROM x WHERE (b"}, "it is no expression"),
        (ROWS, {"row_condition": "a > 1 +"}, "it cannot be read"),
        (QUERY, {"unexpected_rows_query": "SELECT * FROM {batch} JOIN dws.secret"}, "it reads `dws.secret`"),
        (QUERY, {"unexpected_rows_query": "SELECT * FROM parquet.`/etc`"}, "it reads `parquet.`/etc`"),
        (
            QUERY,
            {"unexpected_rows_query": "SELECT TRANSFORM(a) USING 'touch x' FROM {batch}"},
            "runs a program",
        ),
        (QUERY, {"unexpected_rows_query": "DROP TABLE x"}, "it is not one SELECT"),
        (QUERY, {"unexpected_rows_query": "SELECT 1; SELECT 2"}, "it is not one SELECT"),
        (QUERY, {"unexpected_rows_query": "SELECT java_method('a', 'b') FROM {batch}"}, "runs Java code"),
        ("expect_table_row_count_to_equal_other_table", {"other_table_name": "x"}, "reads other tables"),
    ],
)
def test_what_does_more_is_refused(kind: str, kwargs: dict[str, str], says: str) -> None:
    assert says in (refused(kind, kwargs) or "")


def test_a_file_that_does_more_is_refused_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "t.checks.yml"
    file.write_text(
        f"checks:\n  - type: {ROWS}\n    kwargs: {{column: a, row_condition: \"reflect('a', 'b')\"}}\n"
    )
    with pytest.raises(SpecError, match=r"t.checks.yml:3:13: `row_condition`: `reflect` runs Java code"):
        load_suite(file)


@pytest.mark.parametrize(
    "kwargs",
    [
        "{column: !!python/object/apply:os.system ['true']}",
        "!!python/object/new:str {}",
        "&a {column: *a}",
        "{column: 2026-13-45}",
    ],
)
def test_what_is_no_plain_data_is_refused_with_its_place(tmp_path: Path, kwargs: str) -> None:
    file = tmp_path / "t.checks.yml"
    file.write_text(f"checks:\n  - type: {ROWS}\n    kwargs: {kwargs}\n")
    with pytest.raises(SpecError, match=r"t.checks.yml:3:\d+: "):
        load_suite(file)
