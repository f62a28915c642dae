"""Modes and flows of a project, and the plans of the repository's own layers."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from planner_support import write_table
from repository import ROOT

from headrace.planner import analyze
from headrace.planner.lint import lint
from headrace.planner.policy import flows
from headrace.planner.policy.flows import FlowPlan, group
from headrace.planner.policy.modes import refresh_mode, refresh_modes
from headrace.spec import Project, load_project
from headrace.spec.model import RefreshMode, SourceTable, TableName
from headrace.spec.sql.columns import check_columns

THRESHOLD = timedelta(minutes=30)
CONTINUOUS, INCREMENTAL, FULL = RefreshMode.CONTINUOUS, RefreshMode.INCREMENTAL, RefreshMode.FULL
SOURCE_COLUMNS = {
    "users": ("user_id", "name", "city", "created_at"),
    "products": ("product_id", "name", "category", "price"),
    "orders": ("order_id", "user_id", "status", "amount", "created_at", "updated_at"),
    "order_items": ("item_id", "order_id", "product_id", "quantity", "price", "created_at"),
    "page_words": ("word_id", "user_id", "word", "created_at"),
}


def name(text: str) -> TableName:
    return TableName.parse(text)


def project(directory: Path, **freshness: str) -> Project:
    """`stg.a` → `dwd.b` → `dws.c` and `dws.d`; `stg.x` → `dws.y` beside them."""
    queries = {
        "stg.a": ("SELECT * FROM shop.public.a", ""),
        "stg.x": ("SELECT * FROM shop.public.x", ""),
        "dwd.b": ("SELECT id, logdate FROM stg.a", "id"),
        "dws.c": ("SELECT id, logdate FROM dwd.b", "id"),
        "dws.d": ("SELECT id, logdate FROM dwd.b", "id"),
        "dws.y": ("SELECT id, logdate FROM stg.x", "id"),
    }
    specs = {}
    for table, (query, key) in queries.items():
        declared = freshness.get(table.split(".")[1], "DOWNSTREAM")
        specs[name(table)] = write_table(directory, query, key=key, name=table, freshness=declared)
    return Project(directory, specs, {})


@pytest.mark.parametrize(
    ("freshness", "table", "mode", "reason"),
    [
        ({"c": "INTERVAL '10' SECOND"}, "dws.c", CONTINUOUS, "freshness 10 s is within 1800 s"),
        ({"c": "INTERVAL '10' SECOND"}, "stg.a", CONTINUOUS, "freshness 10 s of dws.c is within 1800 s"),
        (
            {"c": "INTERVAL '1' DAY", "d": "INTERVAL '1' MINUTE"},
            "dwd.b",
            CONTINUOUS,
            "freshness 60 s of dws.d is within 1800 s",
        ),
        ({"c": "INTERVAL '1' DAY"}, "dws.c", INCREMENTAL, "freshness 86400 s is above 1800 s"),
        ({}, "stg.a", INCREMENTAL, "FRESHNESS = DOWNSTREAM, and no table that reads it declares one"),
    ],
)
def test_mode(tmp_path: Path, freshness: dict[str, str], table: str, mode: RefreshMode, reason: str) -> None:
    found = project(tmp_path, **freshness)
    assert refresh_mode(found.table(table), THRESHOLD, found) == (mode, reason)


def test_nothing_streams_that_reads_only_scheduled_tables(tmp_path: Path) -> None:
    found = project(tmp_path, b="INTERVAL '1' DAY", c="INTERVAL '10' SECOND", y="INTERVAL '10' SECOND")
    modes = refresh_modes(found, THRESHOLD)
    assert {str(n) for n, (mode, _) in modes.items() if mode is CONTINUOUS} == {"stg.x", "dws.y"}
    assert modes[name("dws.c")] == (
        INCREMENTAL,
        "freshness 10 s is within 1800 s, but all that it reads is refreshed on a schedule",
    )


def test_flows_are_the_connected_continuous_tables(tmp_path: Path) -> None:
    found = project(tmp_path)
    every = dict.fromkeys(found.tables, CONTINUOUS)
    source_a, source_x = SourceTable("shop", "public", "a"), SourceTable("shop", "public", "x")
    chain = tuple(map(name, ("stg.a", "dwd.b", "dws.c", "dws.d")))
    beside = FlowPlan("stg_x", (name("stg.x"), name("dws.y")), (source_x,))
    assert group(found, every) == [FlowPlan("stg_a", chain, (source_a,)), beside]

    cut = {**every, name("dwd.b"): INCREMENTAL, name("stg.x"): FULL}
    assert group(found, cut) == [
        FlowPlan("stg_a", (name("stg.a"),), (source_a,)),
        FlowPlan("dws_c", (name("dws.c"),), (), (name("dwd.b"),)),
        FlowPlan("dws_d", (name("dws.d"),), (), (name("dwd.b"),)),
        FlowPlan("dws_y", (name("dws.y"),), (), (name("stg.x"),)),
    ]


def test_very_many_tables_of_one_source_are_one_flow(tmp_path: Path) -> None:
    beyond = flows.MOST_FLOWS + 1
    specs = {
        name(f"stg.t{n}"): write_table(tmp_path, f"SELECT * FROM shop.public.t{n}", key="", name=f"stg.t{n}")
        for n in range(beyond)
    }
    found = Project(tmp_path, specs, {})
    every = dict.fromkeys(found.tables, CONTINUOUS)
    [one] = group(found, every)
    assert (one.name, one.tables) == ("stg_t0", tuple(found.tables))
    assert len(one.sources) == beyond
    fewer = dict(list(every.items())[1:])
    assert len(group(found, fewer)) == flows.MOST_FLOWS


def test_plans_of_the_reference_project() -> None:
    found = load_project(ROOT)
    sources = {s: SOURCE_COLUMNS[s.table] for s in found.sources()}
    columns = {**sources, **check_columns(found, sources)}
    keys = {s: (SOURCE_COLUMNS[s.table][0],) for s in sources}
    for spec in found.tables.values():
        keys[spec.name] = keys[spec.source] if spec.source else spec.primary_key
    plans = {str(n): analyze(spec, keys, columns) for n, spec in found.tables.items()}
    strategies = {n: p.strategy.name for n, p in plans.items() if not n.startswith("stg.")}
    assert {p.strategy.name for n, p in plans.items() if n.startswith("stg.")} == {"ROW"}
    assert strategies == {
        "dwd.orders": "ROW",
        "dwd.partition_word_count": "ROW",
        "dwd.order_items": "AFFECTED_KEYS",
        "dws.user_hour": "WEIGHTED",
        "dws.partition_word_count": "WEIGHTED",
        "dws.gmv_hour": "AFFECTED_PARTITIONS",
        "dws.gmv_day": "WEIGHTED",
        "dws.gmv_compared": "AFFECTED_PARTITIONS",
        "dws.top_products": "AFFECTED_PARTITIONS",
    }
    compared = plans["dws.gmv_compared"].reason
    assert "(as w) reaches dws.gmv_hour (as h) by logdate = week_ago" in compared
    assert "(as y) reaches dws.gmv_hour (as h) by logdate = year_ago" in compared
    assert [lint(s, keys=keys, columns=columns) for s in found.tables.values()] == [[]] * len(found.tables)
