"""`<table>.checks.yml`: read without Great Expectations, refused with file and line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headrace.errors import SpecError
from headrace.quality.suites import Severity, known_types, load_suite


def write(directory: Path, text: str) -> Path:
    path = directory / "user_hour.checks.yml"
    path.write_text(text)
    return path


def test_a_suite(tmp_path: Path) -> None:
    suite = load_suite(
        write(
            tmp_path,
            """\
# rules
checks:
  - type: expect_compound_columns_to_be_unique
    kwargs: {column_list: [user_id, logdate]}
  - type: expect_column_values_to_be_between
    kwargs:
      column: cnt
      min_value: 1
    severity: warning
    name: plausible
""",
        )
    )
    first, second = suite.expectations
    assert (first.name, first.severity) == (
        "expect_compound_columns_to_be_unique__user_id__logdate",
        Severity.CRITICAL,
    )
    assert (second.name, second.kwargs, second.severity) == (
        "plausible",
        {"column": "cnt", "min_value": 1},
        Severity.WARNING,
    )
    assert (first.location.line, second.location.line) == (3, 5)


def test_an_empty_file_is_an_empty_suite(tmp_path: Path) -> None:
    assert load_suite(write(tmp_path, "")).expectations == ()


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ("checks: [", "1:10", "not YAML"),
        ("checks:\n  - type: a\ab", "2:12", "not YAML: U\\+0007 may not stand in it"),
        ("- a", "1:1", "the file must be a mapping"),
        ("check:\n  - x", "1:1", "no field `check`.*\n.*did you mean `checks`"),
        ("checks: 3", "1:9", "`checks` must be a list"),
        ("checks:\n  - kwargs: {}", "2:5", "needs a `type`"),
        (
            "checks:\n  - type: expect_column_values_to_be_nul",
            "2:11",
            "unknown expectation.*\n.*`expect_column_values_to_be_null`",
        ),
        ("checks:\n  - type: expect_column_to_exist\n    kwarg: {}", "3:5", "no field `kwarg`"),
        ("checks:\n  - type: expect_column_to_exist\n    kwargs: [a]", "3:13", "`kwargs` must be a mapping"),
        ("checks:\n  - type: expect_column_to_exist\n    severity: fatal", "3:15", "unknown severity"),
        ("checks:\n  - type: expect_column_to_exist\n    name: a b", "3:11", "no check name"),
        (
            "checks:\n  - type: expect_column_to_exist\n  - type: expect_column_to_exist",
            "3:5",
            "two checks are called `expect_column_to_exist`.*line 2",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_place(
    tmp_path: Path, text: str, position: str, message: str
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(SpecError, match=message) as raised:
        load_suite(path)
    assert str(raised.value).startswith(f"{path}:{position}:")


def test_a_suite_is_utf_8(tmp_path: Path) -> None:
    path = write(tmp_path, "")
    path.write_bytes("checks:\n  - type: ä".encode("latin-1"))
    with pytest.raises(SpecError, match="is not UTF-8") as raised:
        load_suite(path)
    assert raised.value.location is not None and raised.value.location.line == 2


def test_types_are_known_without_importing_great_expectations() -> None:
    assert {"expect_column_values_to_not_be_null", "unexpected_rows_expectation"} <= known_types()
    code = (
        "import sys; from headrace.quality.suites import known_types; known_types();"
        "sys.exit('great_expectations' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
