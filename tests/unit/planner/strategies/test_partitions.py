"""Which leaf columns carry a table's partition labels, and what a range of them may be bound to."""

from __future__ import annotations

from pathlib import Path

import pytest
from planner_support import names, plan, write_table

from headrace.planner import AffectedKeys, AffectedPartitions, Full

BETWEEN = "{0} >= ${{start_date}} AND {0} <= ${{end_date}}"
RANGE = "logdate >= ${start_date} AND logdate <= ${end_date}"


@pytest.mark.parametrize(
    ("query", "output", "columns", "bound"),
    [
        (f"SELECT * FROM dwd.orders WHERE {RANGE}", "order_id logdate", {0: "logdate"}, True),
        (
            "SELECT order_id, logdate FROM dwd.orders WHERE logdate BETWEEN ${start_date} AND ${end_date}",
            "order_id logdate",
            {0: "logdate"},
            True,
        ),
        # Without a parameter there is nothing to bind; what is read is restricted on the result.
        ("SELECT order_id, logdate FROM dwd.orders", "order_id logdate", {0: "logdate"}, False),
        # The bound is strict: the first label's rows would be missing.
        (
            f"SELECT order_id, logdate FROM dwd.orders WHERE {RANGE.replace('>=', '>')}",
            "order_id logdate",
            {0: "logdate"},
            False,
        ),
        # Another column is bounded.
        (
            f"SELECT order_id, logdate FROM dwd.orders WHERE {BETWEEN.format('status')}",
            "order_id logdate",
            {0: "logdate"},
            False,
        ),
        (
            f"SELECT user_id, logdate, count(*) AS n FROM dwd.orders WHERE {RANGE} GROUP BY user_id, logdate",
            "user_id logdate n",
            {0: "logdate"},
            True,
        ),
        # The window reads other hours: a range of the text alone would begin its sums anew.
        (
            "SELECT order_id, logdate, "
            "sum(amount) OVER (PARTITION BY user_id ORDER BY logdate, order_id) AS s "
            f"FROM dwd.orders WHERE {RANGE}",
            "order_id logdate s",
            {},
            False,
        ),
        (
            "SELECT o.order_id, o.logdate, u.name FROM dwd.orders o "
            f"JOIN stg.users u ON u.user_id = o.user_id WHERE {BETWEEN.format('o.logdate')}",
            "order_id logdate name",
            {0: "logdate"},
            True,
        ),
        # Items of other hours meet these orders too.
        (
            "SELECT o.order_id, i.line, o.logdate FROM dwd.orders o "
            f"JOIN dwd.items i ON i.order_id = o.order_id WHERE {BETWEEN.format('i.logdate')}",
            "order_id line logdate",
            {0: "logdate"},
            False,
        ),
        (
            "SELECT o.order_id, i.line, o.logdate FROM dwd.orders o JOIN dwd.items i "
            "ON i.order_id = o.order_id AND i.logdate = o.logdate "
            f"WHERE {BETWEEN.format('i.logdate')}",
            "order_id line logdate",
            {0: "logdate", 1: "logdate"},
            True,
        ),
        (
            "SELECT o.order_id, i.line, i.logdate FROM dwd.orders o LEFT JOIN dwd.items i "
            "ON i.order_id = o.order_id",
            "order_id line logdate",
            {},
            False,
        ),
        (
            "SELECT order_id, substr(status, 1, 10) AS logdate FROM dwd.orders",
            "order_id logdate",
            {},
            False,
        ),
    ],
)
def test_map(tmp_path: Path, query: str, output: str, columns: dict[int, str], bound: bool) -> None:
    found = plan(write_table(tmp_path, query, key="order_id"), names(output)).partitions
    assert dict(found.columns) == columns
    assert found.bound is bound
    assert bool(found.refused) == (len(columns) < query.count(" dwd.") + query.count(" stg."))


def test_what_is_run_again(tmp_path: Path) -> None:
    by_hour = plan(
        write_table(tmp_path / "a", f"SELECT * FROM dwd.orders WHERE {RANGE}", key="order_id"),
        names("order_id user_id status amount words logdate"),
    )
    again = by_hour.partitions.recompute
    assert isinstance(again, AffectedPartitions) and again.cells.leaves == ((0, ("logdate",)),)
    by_user = plan(
        write_table(
            tmp_path / "b",
            "SELECT user_id, count(*) AS n FROM dwd.orders GROUP BY user_id",
            key="user_id",
            partition=None,
        ),
        names("user_id n"),
    )
    again = by_user.partitions.recompute
    assert isinstance(again, AffectedKeys) and again.columns == ("user_id",)
    assert by_user.partitions.why_not(0) == "`dws.result` has no partitions"
    total = plan(
        write_table(tmp_path / "c", "SELECT count(*) AS n FROM dwd.orders", key="n", partition=None),
        names("n"),
    )
    assert total.partitions.recompute == Full()


LABEL = "date_format(created_at, 'yyyyMMddHH')"


@pytest.mark.parametrize(
    ("query", "time"),
    [
        (f"SELECT order_id, {LABEL} AS logdate FROM dwd.orders", "created_at"),
        (f"SELECT order_id, {LABEL} AS logdate FROM dwd.orders o WHERE amount > 1", "created_at"),
        (f"SELECT user_id, {LABEL} AS logdate, sum(amount) AS s FROM dwd.orders GROUP BY 1, 2", "created_at"),
        (f"SELECT {LABEL} AS logdate, max(order_id) AS m FROM dwd.orders GROUP BY logdate", "created_at"),
        (f"SELECT {LABEL} AS logdate, max(order_id) AS m FROM dwd.orders GROUP BY {LABEL}", "created_at"),
        # A field of a column, and a column of the table by its alias.
        (f"SELECT order_id, {LABEL.replace('(c', '(meta.c')} AS logdate FROM dwd.orders", None),
        (f"SELECT order_id, {LABEL.replace('(c', '(o.c')} AS logdate FROM dwd.orders o", "created_at"),
        (f"SELECT order_id, {LABEL.replace('(c', '(orders.c')} AS logdate FROM dwd.orders", "created_at"),
        # Groups of several labels.
        (f"SELECT user_id, max({LABEL}) AS logdate FROM dwd.orders GROUP BY user_id", None),
        (f"SELECT user_id, min({LABEL}) AS x, '2' AS logdate FROM dwd.orders GROUP BY user_id", None),
        (f"SELECT {LABEL} AS logdate, max(order_id) AS m FROM dwd.orders GROUP BY ROLLUP ({LABEL})", None),
        # A window looks at rows of other hours, a join at those of another table.
        (f"SELECT order_id, {LABEL} AS logdate, sum(amount) OVER () AS s FROM dwd.orders", None),
        (
            f"SELECT o.order_id, {LABEL.replace('(c', '(o.c')} AS logdate "
            "FROM dwd.orders o JOIN stg.users u USING (user_id)",
            None,
        ),
        (f"SELECT order_id, {LABEL} AS logdate FROM dwd.orders ORDER BY order_id LIMIT 3", None),
        # Labels of another form do not sort as those of the table's partitions do.
        ("SELECT order_id, date_format(created_at, 'yyyyMMdd') AS logdate FROM dwd.orders", None),
        ("SELECT order_id, date_format(created_at, 'HHddMMyyyy') AS logdate FROM dwd.orders", None),
        (
            "SELECT order_id, date_format(created_at + INTERVAL '1' HOUR, 'yyyyMMddHH') AS logdate "
            "FROM dwd.orders",
            None,
        ),
    ],
)
def test_time_of_the_labels(tmp_path: Path, query: str, time: str | None) -> None:
    shown = "order_id logdate" if "order_id," in query else "user_id logdate x s m"
    assert plan(write_table(tmp_path, query, key="order_id"), names(shown)).partitions.time == time
