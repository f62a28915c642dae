"""What of a table is computed again, by what its comparisons found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from planner_support import write_table

from headrace.planner.policy.repair import plan_repair
from headrace.results import ParityResult
from headrace.spec.model import TableSpec
from headrace.spec.partitions.label_range import LabelRange

QUERY = "SELECT order_id, logdate FROM dwd.orders"


def result(**what: Any) -> ParityResult:
    given = {"table": "dws.result", "against": "batch", "equal": False, "rows": 9, "missing": 1, "extra": 0}
    return ParityResult(**{**given, "version": 1, **what})


def table(directory: Path, *, partitioned: bool = True) -> TableSpec:
    return write_table(directory, QUERY, key="order_id", partition="logdate" if partitioned else None)


def test_nothing_differs_nothing_is_repaired(tmp_path: Path) -> None:
    assert plan_repair(table(tmp_path), [result(equal=True, missing=0)]) is None
    assert plan_repair(table(tmp_path), [result(error="the table does not run")]) is None


def test_the_partitions_of_all_comparisons_are(tmp_path: Path) -> None:
    found = [
        result(partitions=["2024010105"], missing=4),
        result(against="source", partitions=["2024010103"], extra=2),
    ]
    plan = plan_repair(table(tmp_path), found)
    assert plan is not None and plan.labels == LabelRange.exactly({"2024010103", "2024010105"})
    assert str(plan) == ("dws.result: recomputing 2024010103, 2024010105, 4 rows missing and 2 too many")


def test_rows_of_no_partition_take_the_whole_table(tmp_path: Path) -> None:
    spec = table(tmp_path)
    for found in (result(partitions=["2024010105", "None"]), result(partitions=[])):
        plan = plan_repair(spec, [found])
        assert plan is not None and plan.labels is None and plan.partitions == []
    plan = plan_repair(table(tmp_path, partitioned=False), [result(partitions=["2024010105"])])
    assert plan is not None and plan.labels is None and "recomputing all of it" in str(plan)
