"""Which strategy a query gets, by which columns, and in which words the others are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from planner_support import names, plan, write_table

from headrace.errors import SpecError
from headrace.planner import AffectedKeys, AffectedPartitions, Full, Row, Step, TopN
from headrace.planner import Path as JoinPath

CASES = yaml.safe_load(Path(__file__).with_name("planner_cases.yml").read_text())


def shown(path: JoinPath) -> str:
    """A path as the cases write it."""
    return ", then ".join(
        f"{s.from_reference} ({' '.join(s.from_columns)}) {_sign(s)} "
        f"{s.to_reference} ({' '.join(s.to_columns)})"
        for s in path.steps
    )


def _sign(step: Step) -> str:
    return "NOT IN" if step.null_aware else "<=>" if all(step.null_safe) else "="


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["query"])
def test_plan(tmp_path: Path, case: dict[str, Any]) -> None:
    output = names(case.get("output", "order_id logdate"))
    partition = "logdate" if "logdate" in output else None
    spec = write_table(tmp_path, case["query"], key=case.get("key", "order_id"), partition=partition)
    found = plan(spec, output, without=("WEIGHTED",))  # test_planner_weighted.py asks for it
    refused = dict(found.refused)
    if "strategy" in case:
        assert found.strategy.name == case["strategy"]
    if isinstance(found.strategy, AffectedKeys | AffectedPartitions) and "columns" in case:
        assert found.strategy.columns == names(case["columns"])
        cells = found.strategy.cells
        assert cells.outputs == found.strategy.columns
        held = case.get("leaves", {0: case["columns"]})
        assert dict(cells.leaves) == {r: names(columns) for r, columns in held.items()}
        assert [shown(p) for p in cells.paths] == case.get("paths", [])
        assert cells.global_leaves == tuple(case.get("whole", ()))
    assert case.get("reason", "") in found.reason
    for name, reason in case.get("refused", {}).items():
        assert reason in refused[name]
    cheaper = [
        "ROW",
        "WEIGHTED",
        "AFFECTED_KEYS",
        "AFFECTED_PARTITIONS",
        *(["TOP_N"] if TopN.name in refused else []),
        "FULL",
    ]
    assert list(refused) == cheaper[: cheaper.index(found.strategy.name)]


def test_ambiguous_names_are_not_guessed(tmp_path: Path) -> None:
    query = "SELECT order_id, logdate FROM dwd.orders o JOIN dwd.items i ON o.order_id = i.order_id"
    found = plan(write_table(tmp_path, query, key="order_id"), names("order_id logdate"))
    assert found.strategy == Full()


def test_policy_full(tmp_path: Path) -> None:
    query = "SELECT user_id, logdate, COUNT(*) AS n FROM dwd.orders GROUP BY ALL"
    spec = write_table(tmp_path, query, key="user_id, logdate", policy="FULL")
    found = plan(spec, names("user_id logdate n"))
    assert (found.strategy, found.reason) == (Full(), "REFRESH_POLICY = FULL")
    assert dict(found.refused)["WEIGHTED"] == "REFRESH_POLICY = FULL"


def test_policy_strict(tmp_path: Path) -> None:
    query = "SELECT MAX(user_id) AS user_id, '1' AS logdate FROM dwd.orders"
    spec = write_table(tmp_path, query, key="user_id", policy="INCREMENTAL STRICT")
    words = r"result.sql:\d+:\d+: `dws.result` cannot be refreshed incrementally: no column can be followed"
    with pytest.raises(SpecError, match=words):
        plan(spec, names("user_id logdate"))


def test_stg_follows_its_source_row_by_row(tmp_path: Path) -> None:
    query = "SELECT *, date_format(at, 'yyyyMMddHH') AS logdate FROM shop.public.orders"
    spec = write_table(tmp_path, query, key="", name="stg.orders")
    source = {"columns": {"shop.public.orders": ("id", "at")}, "keys": {"shop.public.orders": ("id",)}}
    assert plan(spec, ("id", "at", "logdate"), key=("id",), **source).strategy == Row()
    with pytest.raises(SpecError, match=r"`stg\.orders` may only filter and project its source"):
        plan(spec, ("id", "at", "logdate"), key=("logdate",), **source)


def test_reason_names_columns_and_ways(tmp_path: Path) -> None:
    query = "SELECT o.order_id, o.logdate, u.name FROM dwd.orders o JOIN stg.users u ON u.user_id = o.user_id"
    found = plan(write_table(tmp_path, query, key="order_id"), names("order_id logdate name"))
    assert found.reason == (
        "changed rows are found by (order_id), copied from dwd.orders (order_id); "
        "a change of stg.users reaches dwd.orders by user_id = user_id"
    )
