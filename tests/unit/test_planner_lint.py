"""What the linter names, with its line, and what it leaves alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from planner_support import COLUMNS, KEYS, write_table

from headrace.planner.lint import Finding, lint

ORDERS = "FROM dwd.orders"


def findings(directory: Path, query: str, *, known: bool = False) -> list[Finding]:
    spec = write_table(directory, query, key="user_id", partition=None)
    if not known:
        return lint(spec)
    keys = {u: KEYS[str(u)] for u in spec.upstreams}
    columns = {u: COLUMNS[str(u)] for u in spec.upstreams}
    return lint(spec, keys=keys, columns=columns)


@pytest.mark.parametrize(
    ("code", "expression", "query"),
    [
        ("VOLATILE", "NOW()", f"SELECT now() AS t, user_id {ORDERS}"),
        ("VOLATILE", "CURRENT_TIMESTAMP()", f"SELECT user_id {ORDERS} WHERE logdate <\ncurrent_timestamp"),
        ("VOLATILE", "CURRENT_DATE", f"SELECT user_id {ORDERS} WHERE logdate < current_date()"),
        ("VOLATILE", "RAND()", f"SELECT user_id, rand() AS r {ORDERS}"),
        ("VOLATILE", "UUID()", f"WITH c AS (SELECT uuid() AS u, user_id {ORDERS}) SELECT * FROM c"),
        ("REFLECTION", "REFLECT('a', 'b')", f"SELECT reflect('a', 'b') AS r, user_id {ORDERS}"),
        ("REFLECTION", "JAVA_METHOD('a', 'b')", f"SELECT java_method('a', 'b') AS r, user_id {ORDERS}"),
        ("FLOAT_AGGREGATE", None, f"SELECT user_id, SUM(CAST(amount AS DOUBLE)) AS s {ORDERS} GROUP BY ALL"),
        ("FLOAT_AGGREGATE", None, f"SELECT user_id, AVG(double(amount) * 2) AS s {ORDERS} GROUP BY ALL"),
        ("FLOAT_AGGREGATE", None, f"SELECT user_id, stddev(amount) AS s {ORDERS} GROUP BY ALL"),
        ("UNORDERED", "FIRST(status)", f"SELECT user_id, first(status) AS s {ORDERS} GROUP BY ALL"),
        ("UNORDERED", None, f"SELECT user_id, collect_list(status) AS s {ORDERS} GROUP BY ALL"),
        ("UNORDERED", None, f"SELECT user_id, collect_set(status) AS s {ORDERS} GROUP BY ALL"),
        ("LIMIT_WITHOUT_ORDER", "LIMIT 10", f"SELECT user_id {ORDERS} LIMIT 10"),
        ("LIMIT_WITHOUT_ORDER", None, f"SELECT user_id FROM (SELECT * {ORDERS} LIMIT 10)"),
        (
            "WINDOW_WITHOUT_ORDER",
            None,
            f"SELECT user_id, ROW_NUMBER() OVER (PARTITION BY user_id) AS n {ORDERS}",
        ),
        (
            "WINDOW_WITHOUT_ORDER",
            None,
            f"SELECT user_id, SUM(amount) OVER (PARTITION BY user_id ROWS 1 PRECEDING) AS n {ORDERS}",
        ),
    ],
)
def test_errors(tmp_path: Path, code: str, expression: str | None, query: str) -> None:
    found = [f for f in findings(tmp_path, query) if f.level == "error"]
    assert [f.code for f in found] == [code]
    assert expression is None or found[0].expression == expression
    assert found[0].suggestion
    assert str(found[0].error()).startswith(str(found[0].location))


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT user_id, SUM(CAST(CAST(amount AS DOUBLE) AS DECIMAL(38, 2))) AS s {ORDERS} GROUP BY ALL",
        f"SELECT user_id, sort_array(collect_list(status)) AS s {ORDERS} GROUP BY ALL",
        f"SELECT user_id {ORDERS} ORDER BY order_id LIMIT 3",
        f"SELECT user_id, RANK() OVER (PARTITION BY user_id ORDER BY amount) AS r {ORDERS}",
        f"SELECT user_id, SUM(amount) OVER (PARTITION BY user_id ORDER BY amount) AS r {ORDERS}",
        f"SELECT user_id, from_unixtime(amount) AS t, CAST(amount AS DOUBLE) AS d {ORDERS}",
        f"SELECT user_id, 'now() rand()' AS s {ORDERS} -- now()",
    ],
)
def test_nothing_to_say(tmp_path: Path, query: str) -> None:
    assert findings(tmp_path, query) == []


@pytest.mark.parametrize(
    ("code", "query"),
    [
        ("UNKNOWN_FUNCTION", f"SELECT user_id, my_udf(amount) AS s {ORDERS}"),
        ("WINDOW_WITHOUT_PARTITION", f"SELECT user_id, RANK() OVER (ORDER BY amount) AS s {ORDERS}"),
        (
            "ORDER_NOT_TOTAL",
            f"SELECT user_id, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY amount) AS n {ORDERS}",
        ),
    ],
)
def test_warnings(tmp_path: Path, code: str, query: str) -> None:
    assert [(f.code, f.level) for f in findings(tmp_path, query, known=True)] == [(code, "warning")]


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT user_id, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY amount, order_id) AS n {ORDERS}",
        f"WITH c AS (SELECT user_id, COUNT(*) AS n {ORDERS} GROUP BY 1) "
        "SELECT *, LAG(n) OVER (ORDER BY n, user_id) AS l FROM c",
        "SELECT o.user_id, LEAD(o.amount) OVER (PARTITION BY o.order_id ORDER BY u.user_id) AS n "
        "FROM dwd.orders o JOIN stg.users u ON o.user_id = u.user_id",
    ],
)
def test_an_order_that_ends_in_a_key_is_total(tmp_path: Path, query: str) -> None:
    codes = [f.code for f in findings(tmp_path, query, known=True)]
    assert "ORDER_NOT_TOTAL" not in codes
    assert "ORDER_NOT_TOTAL" in [f.code for f in findings(tmp_path, query)]  # nothing is known of the keys


def test_location_is_the_line_of_the_expression(tmp_path: Path) -> None:
    found = findings(tmp_path, f"SELECT user_id,\n  now() AS a,\n  current_timestamp AS b\n{ORDERS}")
    lines = found[0].location.path.read_text().splitlines()
    assert [lines[f.location.line - 1][f.location.column - 1 :][:3] for f in found] == ["now", "cur"]
