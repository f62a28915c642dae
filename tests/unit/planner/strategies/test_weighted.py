"""WEIGHTED: which queries it takes, what it stores of a group, how columns follow, and its refusals."""

from __future__ import annotations

from pathlib import Path

import pytest
from planner_support import names, plan, write_table

from headrace.planner import Plan, Weighted
from headrace.planner.sql.state import State
from headrace.planner.strategies.weighted import Located
from headrace.spec.model import TableSpec
from headrace.spec.sql.extension import with_columns
from headrace.spec.sql.rendering import render

RANGE = "WHERE logdate >= ${start_date} AND logdate <= ${end_date}"


def planned(directory: Path, query: str, key: str, output: str) -> tuple[TableSpec, Plan]:
    partition = "logdate" if "logdate" in output.split() else None
    spec = write_table(directory, query, key=key, partition=partition)
    return spec, plan(spec, names(output))


def weighted(directory: Path, query: str, key: str, output: str) -> tuple[TableSpec, Weighted, State]:
    spec, found = planned(directory, query, key, output)
    assert isinstance(found.strategy, Weighted), dict(found.refused)["WEIGHTED"]
    return spec, found.strategy, found.strategy.state


def test_visible_aggregates_are_the_state_and_the_rest_is_hidden(tmp_path: Path) -> None:
    query = (
        "SELECT user_id, o.logdate, COUNT(*) AS cnt, SUM(amount) AS amount FROM dwd.orders o "
        f"{RANGE} GROUP BY user_id, logdate"
    )
    spec, found, state = weighted(tmp_path, query, "user_id, logdate", "user_id logdate cnt amount")
    assert (state.groups, state.rows, state.counts) == (("user_id", "logdate"), "cnt", ("cnt", "_count_3"))
    assert [(s.column, s.values) for s in state.sums] == [("amount", "_count_3")]
    assert state.hidden == (("_count_3", "COUNT(amount)"),)
    assert (found.cells, found.located) == (None, Located(0, ("user_id", "logdate")))
    extended = with_columns(spec, state.at, state.hidden)
    assert render(extended, {spec.references[0].upstream: "v"}).strip() == (
        "SELECT user_id, o.logdate, COUNT(*) AS cnt, SUM(amount) AS amount, COUNT(amount) AS `_count_3` "
        "FROM v o WHERE logdate >= :start_date AND logdate <= :end_date GROUP BY user_id, logdate"
    )


def test_nothing_is_hidden_where_all_is_visible(tmp_path: Path) -> None:
    query = "SELECT user_id, COUNT(1) AS n, SUM(qty) AS q, COUNT(qty) AS c FROM dwd.x GROUP BY ALL"
    query = query.replace("dwd.x", "(SELECT order_id AS user_id, qty FROM dwd.items WHERE qty > 0)")
    spec, _, state = weighted(tmp_path, query, "user_id", "user_id n q c")
    assert state.hidden == () and with_columns(spec, state.at, state.hidden) is spec


COMPUTED = {
    "COALESCE(SUM(amount), 0)": "COALESCE(`_sum_1`, 0)",
    "100 * SUM(amount) FILTER (WHERE status = 'FROM, x') -- of all\n / NULLIF(COUNT(*), 0)": (
        "100 * `_sum_1` -- of all\n / NULLIF(`_rows`, 0)"
    ),
    "CASE WHEN o.user_id = 1 THEN sum( qty+1 ) ELSE user_id END": (
        "CASE WHEN `user_id` = 1 THEN `_sum_1` ELSE `user_id` END"
    ),
    "SUM(amount) IS DISTINCT FROM SUM(qty)": "`_sum_1` IS DISTINCT FROM `_sum_3`",
    "upper(concat('a', o.user_id))": "upper(concat('a', `user_id`))",
    "count_if(amount > 1) || dwd.orders.user_id": "`_count_if_1` || `user_id`",
    "7": "7",
}


@pytest.mark.parametrize("text", COMPUTED)
def test_columns_over_the_state_keep_their_text(tmp_path: Path, text: str) -> None:
    alias = "dwd.orders" if "dwd.orders." in text else "dwd.orders o"
    query = f"SELECT user_id, {text} AS x FROM {alias} GROUP BY user_id".replace("qty", "order_id")
    _, _, state = weighted(tmp_path, query, "user_id", "user_id x")
    assert dict(state.outputs)["x"] == COMPUTED[text].replace("qty", "order_id")


@pytest.mark.parametrize("by", ["1", "s", "upper(status)", "ALL", "upper(o.status)"])
def test_computed_groups(tmp_path: Path, by: str) -> None:
    query = (
        f"SELECT upper(status) AS s, upper(status) || 'x' AS t, COUNT(*) AS n FROM dwd.orders o GROUP BY {by}"
    )
    if by == "ALL":
        query = query.replace("upper(status) || 'x' AS t, ", "")
    _, found, state = weighted(tmp_path, query, "s", "s n" if by == "ALL" else "s t n")
    assert (state.groups, found.cells, found.located) == (("s",), None, None)
    assert dict(state.outputs).get("t", "`s` || 'x'") == "`s` || 'x'"


def test_one_row_without_group_by(tmp_path: Path) -> None:
    query = "SELECT 1 AS id, SUM(amount) AS a FROM dwd.orders"
    _, _, state = weighted(tmp_path, query, "id", "id a")
    assert (state.grouped, state.groups, state.rows) == (False, (), None)
    _, found = planned(tmp_path, "SELECT SUM(amount) AS a FROM dwd.orders", "a", "a")
    assert isinstance(found.strategy, Weighted)


CELLS = {
    "SELECT u.country AS user_id, SUM(o.amount) AS x FROM stg.users u JOIN dwd.orders o USING (user_id) "
    "GROUP BY 1": (
        {1: ("order_id",)},
        Located(0, ("country",)),
    ),
    "SELECT o.user_id, SUM(amount) AS x FROM dwd.orders o LEFT JOIN stg.users u ON u.user_id = o.user_id "
    "GROUP BY o.user_id": ({0: ("order_id",)}, Located(0, ("user_id",))),
    "SELECT status AS user_id, COUNT(*) AS x FROM dwd.orders WHERE user_id IN (SELECT user_id FROM "
    "stg.users) GROUP BY 1": ({0: ("order_id",)}, Located(0, ("status",))),
}


@pytest.mark.parametrize("query", CELLS)
def test_what_is_read_around_a_change(tmp_path: Path, query: str) -> None:
    _, found, _ = weighted(tmp_path, query, "user_id", "user_id x")
    assert found.cells is not None
    assert (found.cells.partitioned, found.located) == CELLS[query]


REFUSED = {
    "SELECT user_id, SUM(n) AS x FROM (SELECT user_id, status, COUNT(*) AS n FROM dwd.orders GROUP BY 1, 2) "
    "GROUP BY 1": "all of its groups (by user_id)",
    "SELECT user_id, COUNT(*) AS x FROM (SELECT DISTINCT user_id, amount FROM dwd.orders) GROUP BY 1": (
        "all of its groups (by user_id)"
    ),
    "SELECT user_id, MAX(amount) AS x FROM dwd.orders GROUP BY user_id": "`MAX(amount)` cannot be kept",
    "SELECT user_id, AVG(amount) AS x FROM dwd.orders GROUP BY user_id": "`AVG(amount)` cannot be kept",
    "SELECT user_id, try_sum(amount) AS x FROM dwd.orders GROUP BY user_id": "cannot be kept",
    "SELECT user_id, SUM(DISTINCT amount) AS x FROM dwd.orders GROUP BY user_id": "needs the values",
    "SELECT user_id, COUNT(DISTINCT amount) AS x FROM dwd.orders GROUP BY user_id": "needs the values",
    "SELECT user_id, COUNT(amount, status) AS x FROM dwd.orders GROUP BY user_id": "cannot be kept",
    "SELECT user_id, COUNT(o.*) AS x FROM dwd.orders o GROUP BY user_id": "cannot be kept",
    "SELECT user_id, COUNT(*) AS x FROM dwd.orders GROUP BY user_id HAVING COUNT(*) > 1": "HAVING",
    "SELECT DISTINCT user_id, COUNT(*) AS x FROM dwd.orders GROUP BY user_id": "DISTINCT makes one row",
    "SELECT user_id, SUM(COUNT(*)) OVER (PARTITION BY user_id) AS x FROM dwd.orders GROUP BY 1": "window",
    "SELECT 3 AS user_id, COUNT(*) AS x FROM dwd.orders GROUP BY order_id": "no column of the SELECT list",
    "SELECT COUNT(*) AS user_id, order_id AS x FROM dwd.orders GROUP BY order_id": "is an aggregate",
    "SELECT user_id, SUM(amount) + x AS x FROM dwd.orders GROUP BY user_id": "no column of the tables",
    "SELECT user_id, ${start_date} || ${end_date} AS x, COUNT(*) FROM dwd.orders GROUP BY 1": (
        "range of the run"
    ),
    "SELECT user_id, COUNT(_rows) AS x FROM (SELECT user_id, status AS _rows FROM dwd.orders) GROUP BY 1": (
        "the name `_rows`"
    ),
    "SELECT country AS user_id, name AS x FROM stg.users": "does not aggregate at its top",
}


@pytest.mark.parametrize("query", REFUSED)
def test_refused_with_a_reason(tmp_path: Path, query: str) -> None:
    output = "user_id logdate c" if "${" in query else "user_id x"
    _, found = planned(tmp_path, query, "user_id", output)
    assert REFUSED[query] in dict(found.refused)["WEIGHTED"], found.reason


def test_options_that_need_more_than_the_sum(tmp_path: Path) -> None:
    query = "SELECT user_id, logdate, COUNT(*) AS n FROM dwd.orders GROUP BY ALL"
    spec = write_table(tmp_path, query, key="user_id, logdate")
    assert plan(spec, names("user_id logdate n")).strategy.name == "WEIGHTED"
    text = spec.path.read_text()
    from headrace.spec import load_table

    for old, new, reason in (
        ("'yyyyMMddHH'", "'yyyyMMddHH', 'correction.policy' = 'skip'", "leaves changes out"),
        ("logdate))", "logdate), CONSTRAINT some EXPECT (n > 1) ON VIOLATION DROP ROW)", "drops rows"),
    ):
        spec.path.write_text(text.replace(old, new, 1))
        found = plan(load_table(spec.path), names("user_id logdate n"))
        assert reason in dict(found.refused)["WEIGHTED"]
