"""The query as Spark runs it: only names and parameters differ from the file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spec_support import PARTITIONED, load_query

from headrace.spec.sql.rendering import render

CASES = {
    "without an alias the table's name qualifies on": (
        "SELECT orders.a, b FROM dwd.orders WHERE orders.b > 1",
        "SELECT orders.a, b FROM v_orders AS `orders` WHERE orders.b > 1",
    ),
    "an alias stays": (
        "SELECT o.a FROM dwd.orders o JOIN dwd.users AS orders ON o.a = orders.a",
        "SELECT o.a FROM v_orders o JOIN v_users AS orders ON o.a = orders.a",
    ),
    "an alias with columns stays": (
        "SELECT a FROM dwd.orders AS x (a, b)",
        "SELECT a FROM v_orders AS x (a, b)",
    ),
    "a self join": (
        "SELECT o.a FROM dwd.orders JOIN dwd.orders o ON o.a = orders.b",
        "SELECT o.a FROM v_orders AS `orders` JOIN v_orders o ON o.a = orders.b",
    ),
    "strings and comments are left alone": (
        "SELECT 'dwd.orders' AS a, \"it's dwd.users\" AS b, r'dwd.orders\\' AS c /* dwd.o ${start_date} */\n"
        "FROM dwd.orders -- dwd.users ${end_date}\nWHERE b <> 'FROM dwd.orders; --'",
        "SELECT 'dwd.orders' AS a, \"it's dwd.users\" AS b, r'dwd.orders\\' AS c /* dwd.o ${start_date} */\n"
        "FROM v_orders AS `orders` -- dwd.users ${end_date}\nWHERE b <> 'FROM dwd.orders; --'",
    ),
    "a common table expression that shadows": (
        "WITH orders AS (SELECT a FROM dwd.orders) SELECT orders.a FROM orders JOIN dwd.users USING (a)",
        "WITH orders AS (SELECT a FROM v_orders AS `orders`) SELECT orders.a FROM orders"
        " JOIN v_users AS `users` USING (a)",
    ),
    "quoted names, blanks and case": (
        "SELECT `orders`.a FROM `dwd` . `orders`\n, DWD.Users U",
        "SELECT `orders`.a FROM v_orders AS `orders`\n, v_users U",
    ),
    "long qualifiers": (
        "SELECT dwd.orders.a, Dwd.Orders.s.f, x.dwd.orders FROM dwd.orders",
        "SELECT orders.a, Orders.s.f, x.dwd.orders FROM v_orders AS `orders`",
    ),
    "subqueries": (
        "SELECT a FROM dwd.orders WHERE a IN (SELECT a FROM dwd.orders) AND EXISTS"
        " (SELECT 1 FROM dwd.users WHERE users.a = orders.a)",
        "SELECT a FROM v_orders AS `orders` WHERE a IN (SELECT a FROM v_orders AS `orders`) AND EXISTS"
        " (SELECT 1 FROM v_users AS `users` WHERE users.a = orders.a)",
    ),
    "parameters, as often as they stand": (
        "SELECT a FROM dwd.orders WHERE d>=${start_date}AND d<=${end_date} OR ${start_date} IS NULL",
        "SELECT a FROM v_orders AS `orders` WHERE d>=:start_date AND d<=:end_date OR :start_date IS NULL",
    ),
    "a pipe": (
        "FROM dwd.orders |> WHERE orders.a > 1 |> SELECT a",
        "FROM v_orders AS `orders` |> WHERE orders.a > 1 |> SELECT a",
    ),
    "characters beyond the basic plane": (
        "SELECT '😀' AS a, `größe` FROM dwd.orders",
        "SELECT '😀' AS a, `größe` FROM v_orders AS `orders`",
    ),
}


@pytest.mark.parametrize(("query", "expected"), CASES.values(), ids=CASES.keys())
def test_render(tmp_path: Path, query: str, expected: str) -> None:
    spec = load_query(tmp_path, query, clauses=PARTITIONED)
    bindings = {u: f"v_{u}".replace("dwd.", "") for u in spec.upstreams}
    assert render(spec, bindings) == expected


def test_one_occurrence_may_be_bound_to_another_relation(tmp_path: Path) -> None:
    spec = load_query(tmp_path, "SELECT o.a FROM dwd.o JOIN dwd.o p ON o.a = p.b JOIN dwd.u USING (a)")
    bindings = {u: f"v_{u}".replace("dwd.", "") for u in spec.upstreams}
    assert (
        render(spec, bindings, by_reference={1: "delta"})
        == "SELECT o.a FROM v_o AS `o` JOIN delta p ON o.a = p.b JOIN v_u AS `u` USING (a)"
    )


def test_a_source_is_bound_like_a_table(tmp_path: Path) -> None:
    query = (
        "SELECT *, upper(orders.b) AS c FROM shop.public.orders WHERE shop.public.orders.b > public.orders.c"
    )
    spec = load_query(tmp_path, query, name="stg.orders")
    (source,) = spec.upstreams
    rendered = render(spec, {source: "events"})
    assert rendered.endswith("FROM events AS `orders` WHERE orders.b > orders.c")


def test_an_unbound_upstream_is_an_error(tmp_path: Path) -> None:
    spec = load_query(tmp_path, "SELECT a FROM dwd.o")
    with pytest.raises(KeyError):
        render(spec, {})


@given(
    st.lists(st.sampled_from(["-- dwd.o ${start_date}\n", "/* dwd.o */", " ", "\n", "\t", "/* /* ' */ */"]))
)
def test_what_stands_between_the_words_is_kept(
    tmp_path_factory: pytest.TempPathFactory, gaps: list[str]
) -> None:
    gap = " " + "".join(gaps) + " "
    query = gap.join(["SELECT", "a", "FROM", "dwd.o", "WHERE", "a", ">", "'dwd.o'"])
    spec = load_query(tmp_path_factory.getbasetemp() / "rendering", query)
    (upstream,) = spec.upstreams
    expected = gap.join(["SELECT", "a", "FROM", "v AS `o`", "WHERE", "a", ">", "'dwd.o'"])
    assert render(spec, {upstream: "v"}) == expected
