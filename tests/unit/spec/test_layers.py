"""The reference project: its tables, keys and columns, and that their SQL is PostgreSQL's too."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlglot
import yaml
from repository import ROOT
from spec_support import SHOP_COLUMNS

from headrace.planner.policy.modes import refresh_modes
from headrace.spec import Project, TableName, load_project
from headrace.spec.calendar import in_force
from headrace.spec.model import RefreshMode
from headrace.spec.sql.columns import check_columns
from headrace.spec.sql.rendering import render

TABLES = {
    # table: (key, columns); stg takes its key from the source
    "stg.users": ("", "user_id name email city created_at updated_at"),
    "stg.products": ("", "product_id name category price created_at updated_at"),
    "stg.orders": ("", "order_id user_id status amount created_at updated_at logdate"),
    "stg.order_items": ("", "item_id order_id product_id quantity price created_at logdate"),
    "stg.page_words": ("", "word_id user_id page word created_at logdate"),
    "dwd.orders": ("order_id", "order_id user_id status amount created_at updated_at logdate"),
    "dwd.order_items": (
        "item_id",
        "item_id order_id user_id product_id city category product_name status quantity amount logdate",
    ),
    "dwd.partition_word_count": ("word_id", "word_id logdate user_id word"),
    "dws.user_hour": ("user_id logdate", "user_id logdate cnt amount"),
    "dws.gmv_hour": ("logdate", "logdate week_ago year_ago orders buyers gmv"),
    "dws.gmv_day": ("day", "day orders gmv"),
    "dws.gmv_compared": ("logdate", "logdate gmv gmv_week_ago gmv_year_ago"),
    "dws.top_products": ("logdate rank", "logdate rank product_id product_name category quantity amount"),
    "dws.partition_word_count": ("logdate user_id", "logdate user_id cnt"),
}
UNPARTITIONED = {"stg.users", "stg.products"}


@pytest.fixture(scope="module")
def project() -> Project:
    return load_project(ROOT)


def test_the_tables_are_these(project: Project) -> None:
    assert {str(n) for n in project.tables} == set(TABLES)
    assert project.sources() == set(SHOP_COLUMNS)


@pytest.mark.parametrize("name", TABLES)
def test_key_columns_and_partitions(project: Project, name: str) -> None:
    spec, (key, columns) = project.table(name), TABLES[name]
    assert spec.primary_key == tuple(key.split())
    assert check_columns(project, SHOP_COLUMNS)[spec.name] == tuple(columns.split())
    assert spec.comment
    assert (spec.partition_column is None) == (name in UNPARTITIONED)
    if spec.partition_column:
        by = (("day",), "yyyyMMdd") if name == "dws.gmv_day" else (("logdate",), "yyyyMMddHH")
        assert (spec.partitioned_by, spec.partition_format) == by
        assert spec.query.count("${start_date}") == spec.query.count("${end_date}") == 1
        assert re.search(r">= \$\{start_date\}\s+AND .*<= \$\{end_date\}", spec.query), (
            "both ends are included"
        )


FRESHNESS = {  # seconds
    **{"user_hour": 10, "gmv_hour": 30, "gmv_day": 86_400, "gmv_compared": 60},
    **{"top_products": 60, "partition_word_count": 60},
}


@pytest.mark.parametrize("name", TABLES)
def test_dws_declares_its_freshness_and_all_else_inherits(project: Project, name: str) -> None:
    spec = project.table(name)
    if spec.name.layer == "dws":
        assert spec.freshness == timedelta(seconds=FRESHNESS[spec.name.table])
        assert spec.constraints
    else:
        assert spec.freshness is None
        assert project.downstream(spec.name), "DOWNSTREAM needs a consumer to inherit from"


def test_the_daily_report_goes_by_the_minute_on_the_sale_day(project: Project) -> None:
    sale, before = datetime(2026, 11, 11, 12, tzinfo=UTC), datetime(2026, 11, 10, 23, 59, tzinfo=UTC)
    modes = {}
    for moment in (before, sale):
        modes[moment] = refresh_modes(in_force(project, moment), timedelta(minutes=30))
    report = project.table("dws.gmv_day").name
    assert modes[before][report][0] is RefreshMode.INCREMENTAL
    assert modes[sale][report] == (RefreshMode.CONTINUOUS, "freshness 60 s is within 1800 s")
    assert {n: m for n, m in modes[sale].items() if n != report} == {
        n: m for n, m in modes[before].items() if n != report
    }


@pytest.mark.parametrize("name", [n for n in TABLES if not n.startswith("stg")])
def test_the_sql_is_postgresqls_too(project: Project, name: str) -> None:
    spec = project.table(name)
    rendered = render(spec, {u: str(u) for u in spec.upstreams})
    (written,) = sqlglot.transpile(
        rendered, read="spark", write="postgres", unsupported_level=sqlglot.ErrorLevel.RAISE
    )
    assert sqlglot.parse_one(written, dialect="postgres")
    assert not re.search(r"\b(FLOAT|DOUBLE|REAL)\b", written, re.IGNORECASE)


@pytest.mark.parametrize("path", sorted(ROOT.glob("layers/*/*.checks.yml")), ids=lambda p: p.name)
def test_checks_name_a_table_and_its_columns(project: Project, path: Path) -> None:
    name = TableName(path.parent.name, path.name.removesuffix(".checks.yml"))
    columns = check_columns(project, SHOP_COLUMNS)[name]
    checks = yaml.safe_load(path.read_text())["checks"]
    assert checks
    for check in checks:
        assert check["type"].startswith("expect_")
        assert check["severity"] in ("critical", "warning")
        named = [check["kwargs"]["column"]] if "column" in check["kwargs"] else check["kwargs"]["column_list"]
        assert set(named) <= set(columns)
