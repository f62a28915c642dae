"""Columns of assets: what each is computed from, and their types in the warehouse."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest
from definitions_support import write_project
from deltalake import write_deltalake

from headrace.orchestration.build import build_definitions
from headrace.orchestration.columns import column_lineage, open_snapshot, stored_columns
from headrace.spec import load_project

KNOWN = {"stg.orders": ("order_id", "user_id", "amount", "logdate"), "stg.users": ("user_id", "name")}


def lineage(project: Path, query: str, known: dict[str, tuple[str, ...]] = KNOWN) -> dict[str, set[str]]:
    """Of the table `dwd.t` with this query."""
    layer = project / "layers/dwd/t.sql"
    layer.write_text(
        "CREATE MATERIALIZED TABLE dwd.t (PRIMARY KEY (k)) FRESHNESS = INTERVAL '1' HOUR AS\n" + query
    )
    spec = load_project(project).table("dwd.t")
    found = column_lineage(spec, lambda upstream: known.get(str(upstream), ())).deps_by_column
    return {c: {f"{'.'.join(d.asset_key.path)}.{d.column_name}" for d in deps} for c, deps in found.items()}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_project(tmp_path)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            "SELECT o.order_id AS k, amount * 2 AS twice, u.name, COUNT(*) OVER (PARTITION BY city) AS n "
            "FROM stg.orders o JOIN stg.users u ON u.user_id = o.user_id",
            {
                "k": {"stg.orders.order_id"},
                "twice": {"stg.orders.amount"},
                "name": {"stg.users.name"},
                "n": set(),
            },
        ),
        (
            "WITH paid AS (SELECT *, amount + 1 AS more FROM stg.orders) "
            "SELECT * EXCEPT (logdate), order_id AS k FROM paid",
            {
                "order_id": {"stg.orders.order_id"},
                "user_id": {"stg.orders.user_id"},
                "amount": {"stg.orders.amount"},
                "more": {"stg.orders.amount"},
                "k": {"stg.orders.order_id"},
            },
        ),
        (
            "SELECT order_id AS k, user_id AS who FROM stg.orders UNION ALL "
            "SELECT user_id, name FROM stg.users",
            {
                "k": {"stg.orders.order_id", "stg.users.user_id"},
                "who": {"stg.orders.user_id", "stg.users.name"},
            },
        ),
        (
            "SELECT user_id AS k, (SELECT MAX(amount) FROM stg.orders) AS most FROM stg.users",
            {"k": {"stg.users.user_id"}, "most": {"stg.orders.amount"}},
        ),
    ],
)
def test_columns_are_followed_through_the_query(
    project: Path, query: str, expected: dict[str, set[str]]
) -> None:
    assert lineage(project, query) == expected


def test_a_table_whose_columns_nobody_knows_has_those_that_are_read(project: Path) -> None:
    found = lineage(project, "SELECT visit_id AS k, upper(page) AS page FROM stg.visits")
    assert found == {"k": {"stg.visits.visit_id"}, "page": {"stg.visits.page"}}


def test_types_are_those_of_the_warehouse(project: Path) -> None:
    place = project / ".headrace/data/warehouse/stg/users"
    assert stored_columns(open_snapshot(place)) == []
    row = {"user_id": [1], "name": ["a"], "paid": [Decimal("1.50")], "tags": [["x"]], "_seq": ["9"]}
    types = {"paid": pa.decimal128(12, 2), "user_id": pa.int64()}
    table = pa.table({n: pa.array(v, types.get(n)) for n, v in row.items()})
    write_deltalake(str(place / "snapshot"), table)
    named = [("user_id", "bigint"), ("name", "string"), ("paid", "decimal(12,2)"), ("tags", "array<string>")]
    assert stored_columns(open_snapshot(place)) == named
    specs = {s.key.to_user_string(): s for s in build_definitions(project).resolve_all_asset_specs()}
    shown = specs["stg/users"].metadata["dagster/column_schema"].columns
    assert [(c.name, c.type) for c in shown] == named
    deps = specs["stg/users"].metadata["dagster/column_lineage"].deps_by_column
    source = dg.AssetKey(["shop", "public", "users"])
    assert {(c, d.asset_key, d.column_name) for c, ds in deps.items() for d in ds} == {
        (name, source, name) for name, _ in named
    }
