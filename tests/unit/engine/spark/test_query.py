"""What is read off a query's text without running it."""

from __future__ import annotations

from pathlib import Path

import pytest
from spec_support import declaration, load_query, write

from headrace.engine.spark.query import drops_rows
from headrace.spec import load_table


@pytest.mark.parametrize(
    ("query", "drops"),
    [
        ("SELECT * FROM dwd.a", False),
        ("SELECT k, v AS w FROM dwd.a", False),
        ("SELECT k, v FROM dwd.a WHERE v > 1", True),
        ("SELECT k, explode(v) AS v FROM dwd.a", True),
        ("SELECT DISTINCT k FROM dwd.a", True),
        ("SELECT k, v FROM dwd.a LIMIT 3", True),
        ("SELECT k, count(*) AS n FROM dwd.a GROUP BY k", True),
        ("SELECT a.k, b.v FROM dwd.a JOIN dwd.b ON a.k = b.k", True),
        ("SELECT k FROM (SELECT * FROM dwd.a WHERE v > 1)", True),
        ("WITH x AS (SELECT * FROM dwd.a WHERE v > 1) SELECT k FROM x", True),
    ],
)
def test_queries_that_may_leave_rows_out(tmp_path: Path, query: str, drops: bool) -> None:
    assert drops_rows(load_query(tmp_path, query)) is drops


def test_constraints_that_leave_rows_out(tmp_path: Path) -> None:
    for violation, drops in (("DROP ROW", True), ("FAIL", False)):
        declared = declaration("dws.t", "SELECT * FROM dwd.a").replace(
            "(PRIMARY KEY (a))", f"(PRIMARY KEY (a), CONSTRAINT c EXPECT (a > 0) ON VIOLATION {violation})"
        )
        assert drops_rows(load_table(write(tmp_path, "dws.t", declared))) is drops
