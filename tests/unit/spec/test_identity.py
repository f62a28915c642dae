"""What decides a table's rows: edits that do, and edits that do not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.spec import load_table
from headrace.spec.identity import digest, label_identity, rows_identity, words
from headrace.spec.model import TableSpec

TEXT = """CREATE MATERIALIZED TABLE dws.t (
  PRIMARY KEY (h, k), CONSTRAINT c EXPECT (n > 0) ON VIOLATION DROP ROW
)
PARTITIONED BY (h)
WITH ('partition.fields.h.date-formatter' = 'yyyyMMddHH')
FRESHNESS = INTERVAL '10' SECOND
AS
SELECT h, k, 'a -- b' AS n FROM dwd.u WHERE h >= ${start_date} AND h <= ${end_date}"""


Edited = Callable[..., TableSpec]


@pytest.fixture
def edited(tmp_path: Path) -> Edited:
    def spec(old: str = "", new: str = "") -> TableSpec:
        assert old in TEXT
        path = tmp_path / "layers" / "dws" / "t.sql"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(TEXT.replace(old, new) if old else TEXT)
        return load_table(path)

    return spec


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("FROM dwd.u", "-- why\nFROM dwd.u"),
        ("FROM dwd.u", "/* why,\n at length */ FROM\n\n    dwd.u"),
        ("h, k, 'a", "h,k,'a"),
        ("PARTITIONED BY", "COMMENT 'why'\nPARTITIONED BY"),
        ("DROP ROW\n", "DROP ROW, CONSTRAINT w EXPECT (k > 0) ON VIOLATION WARN\n"),
        ("DROP ROW\n", "DROP ROW, CONSTRAINT w EXPECT (k > 0) ON VIOLATION FAIL\n"),
        ("'10' SECOND", "'1' DAY"),
        ("yyyyMMddHH", "yyyyMMdd"),
    ],
)
def test_what_changes_no_row(edited: Edited, old: str, new: str) -> None:
    assert rows_identity(edited(old, new)) == rows_identity(edited())


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ("'a -- b'", "'a -- c'", "query"),
        ("'a -- b'", "'a  -- b'", "query"),
        ("'a -- b'", "'a ' -- b'\n", "query"),
        ("SELECT h", "SELECT /*+ BROADCAST(u) */ h", "query"),
        ("AS n", "AS N", "query"),
        ("AS n", "AS `n `", "query"),
        ("(h, k),", "(h),", "PRIMARY KEY"),
        ("n > 0", "n > 1", "constraints that remove rows"),
        ("DROP ROW", "WARN", "constraints that remove rows"),
        ("DROP ROW", "QUARANTINE", "constraints that remove rows"),
    ],
)
def test_what_changes_rows(edited: Edited, old: str, new: str, part: str) -> None:
    before, after = rows_identity(edited()), rows_identity(edited(old, new))
    assert [name for name in after if after[name] != before[name]] == [part]
    assert digest(before) != digest(after)


def test_labels_are_known_by_their_column_and_format(edited: Edited) -> None:
    before, after = label_identity(edited()), label_identity(edited("yyyyMMddHH", "yyyyMMdd"))
    assert before != after


def test_words_stand_apart() -> None:
    assert words("SELECT a - -1") != words("SELECT a --1")
    assert words("SELECT 1 e FROM t") != words("SELECT 1e FROM t")
    assert words("SELECT ${start_date}") == words("SELECT/**/${start_date} -- ${end_date}")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SELECT 'a' 'b'", "SELECT 'a''b'"),  # Spark: ab, a'b
        ('SELECT "a" "b"', 'SELECT "a""b"'),
        ("SELECT 'a' \"b\"", "SELECT 'a'\"b\""),
        ("SELECT 1 -- c\n + 1", "SELECT 1 -- c\\\n + 1"),  # Spark: 2, 1
        ("SELECT 1 -- c\n", "SELECT 1 -- c\\\n + 1"),
        ("SELECT 1 /* a /* b */ c */", "SELECT 1"),
        ("SELECT 1 d", "SELECT 1d"),
        ("SELECT a > = b", "SELECT a >= b"),
    ],
)
def test_what_spark_may_read_otherwise_is_not_taken_for_the_same(one: str, other: str) -> None:
    assert words(one) != words(other)


def test_comments_of_all_kinds_are_blank() -> None:
    for comment in ("-- why", "-- a \\ b\n", "/**/", "/* a * b / c\n-- d */", "/*/ */", "\t\n"):
        assert words(f"SELECT 1 {comment}\n + 1") == words("SELECT 1+1"), comment
