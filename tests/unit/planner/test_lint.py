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
        ("PROGRAM", None, f"SELECT TRANSFORM(user_id) USING 'touch x' AS (user_id) {ORDERS}"),
        ("PROGRAM", None, f"SELECT user_id FROM (SELECT TRANSFORM(user_id) USING 'x' AS (user_id) {ORDERS})"),
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
        (  # what is unique in a UNION is not known
            "ORDER_NOT_TOTAL",
            f"SELECT *, LAG(a) OVER (ORDER BY a) AS n FROM (SELECT 1 AS a {ORDERS} UNION SELECT 2 {ORDERS})",
        ),
    ],
)
def test_warnings(tmp_path: Path, code: str, query: str) -> None:
    assert (code, "warning") in [(f.code, f.level) for f in findings(tmp_path, query, known=True)]


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


JOINED = "FROM dwd.orders o JOIN stg.users u ON u.user_id = o.user_id"
PADDED = "FROM dwd.orders o LEFT JOIN stg.users u ON u.user_id = o.user_id"
LOOSE = "FROM dwd.orders o LEFT JOIN stg.users u ON u.country = o.status"
ITEMS = "FROM dwd.items i JOIN dwd.orders o ON o.order_id = i.order_id"


@pytest.mark.parametrize(
    ("total", "query"),
    [
        (False, f"SELECT user_id, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY amount) AS n {ORDERS}"),
        (False, f"SELECT *, LAG(amount) OVER (PARTITION BY user_id ORDER BY logdate) AS n {ORDERS}"),
        (False, f"SELECT user_id, SUM(amount) OVER (ORDER BY amount ROWS 1 PRECEDING) AS n {ORDERS}"),
        (False, f"SELECT user_id, FIRST(amount) OVER (PARTITION BY user_id ORDER BY logdate) AS n {ORDERS}"),
        (True, f"SELECT user_id, RANK() OVER (PARTITION BY user_id ORDER BY amount) AS n {ORDERS}"),
        (True, f"SELECT user_id, DENSE_RANK() OVER (PARTITION BY user_id ORDER BY amount) AS n {ORDERS}"),
        (True, f"SELECT o.user_id, ROW_NUMBER() OVER (ORDER BY o.amount, o.order_id) AS n {JOINED}"),
        (True, f"SELECT o.user_id, ROW_NUMBER() OVER (ORDER BY o.order_id) AS n {PADDED}"),
        (False, f"SELECT o.user_id, ROW_NUMBER() OVER (ORDER BY u.user_id) AS n {PADDED}"),
        (False, f"SELECT o.user_id, ROW_NUMBER() OVER (ORDER BY o.order_id) AS n {LOOSE}"),
        (True, f"SELECT o.user_id, ROW_NUMBER() OVER (ORDER BY i.line, o.order_id) AS n {ITEMS}"),
        (False, f"SELECT o.user_id, ROW_NUMBER() OVER (ORDER BY o.order_id) AS n {ITEMS}"),
        (True, "SELECT *, ROW_NUMBER() OVER (ORDER BY n, user_id) AS k FROM (SELECT o.user_id, u.name, "
               f"COUNT(*) AS n {JOINED} GROUP BY o.user_id, u.name)"),
        (False, "SELECT *, ROW_NUMBER() OVER (ORDER BY n, name) AS k FROM (SELECT o.user_id, u.name, "
                f"COUNT(*) AS n {JOINED} GROUP BY o.user_id, u.name)"),
        # rows alike in every column may change places
        (True, f"SELECT *, LAG(a) OVER (ORDER BY a, s) AS n FROM (SELECT amount AS a, status AS s {ORDERS})"),
        (False, f"SELECT *, ROW_NUMBER() OVER (ORDER BY amount) AS n FROM (SELECT amount, status {ORDERS})"),
        # the same text twice: one of them is not total
        (False, "SELECT user_id, RANK() OVER (ORDER BY user_id) AS r, n FROM (SELECT user_id, "
                f"ROW_NUMBER() OVER (ORDER BY order_id) AS n {ORDERS}) JOIN (SELECT user_id AS u, "
                "ROW_NUMBER() OVER (ORDER BY order_id) AS m FROM dwd.items) ON u = user_id"),
        (False, f"SELECT user_id, amount {ORDERS} ORDER BY amount DESC LIMIT 10"),
        (False, f"SELECT user_id, amount AS a {ORDERS} ORDER BY a LIMIT 10 OFFSET 3"),
        (False, f"SELECT user_id, amount {ORDERS} ORDER BY 2 LIMIT 10"),
        (False, f"SELECT o.* FROM (SELECT * {ORDERS} ORDER BY status LIMIT 1) o"),
        (True, f"SELECT user_id, amount AS a {ORDERS} ORDER BY a, order_id LIMIT 10"),
        (True, f"SELECT amount AS a {ORDERS} ORDER BY a LIMIT 10"),
        (True, f"SELECT user_id, SUM(amount) AS s {ORDERS} GROUP BY user_id ORDER BY s DESC, 1 LIMIT 10"),
        (True, f"SELECT i.order_id, o.status, o.logdate, SUM(i.qty) AS s {ITEMS} "
               "GROUP BY i.order_id, o.status, o.logdate ORDER BY s DESC, i.order_id LIMIT 10"),
    ],
)  # fmt: skip
def test_an_order_is_refused_only_where_it_is_not_total(tmp_path: Path, total: bool, query: str) -> None:
    found = [f.level for f in findings(tmp_path, query, known=True) if f.code == "ORDER_NOT_TOTAL"]
    assert set(found) == (set() if total else {"error"})


def test_equal_values_of_two_types_determine_nothing(tmp_path: Path) -> None:
    query = f"SELECT o.user_id, ROW_NUMBER() OVER (ORDER BY o.order_id) AS n {JOINED}"
    spec = write_table(tmp_path, query, key="user_id", partition=None)
    keys, columns = ({u: known[str(u)] for u in spec.upstreams} for known in (KEYS, COLUMNS))
    orders, users = spec.upstreams
    same = {orders: {"user_id": "bigint"}, users: {"user_id": "bigint"}}
    other = {orders: {"user_id": "bigint"}, users: {"user_id": "string"}}  # '1' and '01' both equal 1
    assert {f.level for f in lint(spec, keys=keys, columns=columns, types=same)} == {"warning"}
    assert "error" in {f.level for f in lint(spec, keys=keys, columns=columns, types=other)}


@pytest.mark.parametrize(
    ("code", "suggestion", "query"),
    [
        ("FLOAT_AGGREGATE", "SUM(CAST(price AS DECIMAL(38, s)))", "SELECT SUM(price) AS s FROM stg.products"),
        ("FLOAT_AGGREGATE", "AVG(CAST(x AS DECIMAL(38, s)))",
         "SELECT AVG(x) AS s FROM (SELECT coalesce(price, 0) AS x, title FROM stg.products)"),
        ("FLOAT_AGGREGATE", "MEAN(CAST(p.price * 2 AS DECIMAL(38, s)))",
         "SELECT mean(p.price * 2) AS s FROM stg.products p"),
        ("FLOAT_AGGREGATE", "SUM(CAST(m AS DECIMAL(38, s)))",
         "WITH c AS (SELECT title, MAX(price) AS m FROM stg.products GROUP BY 1) SELECT SUM(m) AS s FROM c"),
        ("BIGINT_SUM", "SUM(CAST(qty AS DECIMAL(38, 0)))", "SELECT SUM(qty) AS s FROM dwd.items"),
        ("BIGINT_SUM", "SUM(CAST(n AS DECIMAL(38, 0)))",
         "SELECT SUM(n) AS s FROM (SELECT COUNT(*) AS n FROM dwd.items GROUP BY line)"),
        (None, "", "SELECT SUM(CAST(price AS DECIMAL(12, 2))) AS s FROM stg.products"),
        (None, "", "SELECT SUM(CASE WHEN price > 1.5 THEN 1 ELSE 0 END) AS s FROM stg.products"),
        (None, "", "SELECT SUM(line) AS s, AVG(qty) AS a, MAX(qty) AS m FROM dwd.items"),
        (None, "", "SELECT SUM(amount * 0.5) AS s, SUM(amount / 3) AS t FROM dwd.orders"),
    ],
)  # fmt: skip
def test_sums_by_the_types_of_columns(tmp_path: Path, code: str | None, suggestion: str, query: str) -> None:
    spec = write_table(tmp_path, query, key="s", partition=None)
    types = {
        "stg.products": {"product_id": "bigint", "title": "string", "price": "double"},
        "dwd.items": {"order_id": "bigint", "line": "int", "qty": "bigint"},
        "dwd.orders": {"order_id": "bigint", "amount": "decimal(12,2)"},
    }
    found = lint(spec, types={u: types[str(u)] for u in spec.upstreams})
    assert [f.code for f in found] == ([code] if code else [])
    assert all(f.suggestion.startswith(suggestion) for f in found)
    assert all(f.level == ("error" if code == "FLOAT_AGGREGATE" else "warning") for f in found)
