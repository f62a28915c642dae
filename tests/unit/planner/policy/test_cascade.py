"""Which ranges of which tables a refreshed range touches, in which words, and in which parts it runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from planner_support import write_table

from headrace.planner.analyze import analyze
from headrace.planner.policy.cascade import CascadeStep, chunks, plan_cascade
from headrace.planner.strategies.partitions import PartitionMap
from headrace.spec.model import TableName, TableSpec
from headrace.spec.partitions.label_range import LabelRange

HOURS = LabelRange("2024010103", "2024010105")
COLUMNS = ("id", "k", "v", "logdate")
RANGE = "WHERE logdate >= ${start_date} AND logdate <= ${end_date}"


@dataclass
class Lineage:
    tables: dict[TableName, TableSpec]

    def downstream(self, name: TableName) -> tuple[TableName, ...]:
        return tuple(n for n, s in self.tables.items() if name in s.upstreams)


def cascade(
    directory: Path, queries: dict[str, str], first: str, *, whole: bool = False
) -> dict[str, CascadeStep]:
    """The cascade of tables with these queries, all of `COLUMNS`; `*` before a name: without partitions."""
    specs: dict[TableName, TableSpec] = {}
    maps: dict[TableName, PartitionMap] = {}
    columns, keys = {}, {}
    for written, query in queries.items():
        partition = None if written.startswith("*") else "logdate"
        spec = write_table(directory, query, key="id", partition=partition, name=written.lstrip("*"))
        specs[spec.name] = spec
        columns |= {spec.name: COLUMNS, **dict.fromkeys(spec.upstreams, COLUMNS)}
        keys |= {spec.name: ("id",), **dict.fromkeys(spec.upstreams, ("id",))}
        maps[spec.name] = analyze(spec, keys, columns).partitions
    found = plan_cascade(Lineage(specs), maps, TableName.parse(first), None if whole else HOURS)
    return {str(step.table): step for step in found}


def copy(upstream: str) -> str:
    return f"SELECT id, k, v, logdate FROM {upstream} {RANGE}"


def test_the_same_labels_go_down_a_chain_and_no_further_than_lineage(tmp_path: Path) -> None:
    queries = {
        "dwd.a": copy("stg.x"),
        "dwd.other": copy("stg.y"),
        "dws.b": f"SELECT min(id) AS id, k, sum(v) AS v, logdate FROM dwd.a {RANGE} GROUP BY k, logdate",
        "dws.c": copy("dws.b"),
    }
    found = cascade(tmp_path, queries, "dwd.a")
    assert list(found) == ["dwd.a", "dws.b", "dws.c"]
    assert {step.labels for step in found.values()} == {HOURS}
    assert found["dws.c"].reason == "`logdate` equals `logdate` of dws.b: the same labels"
    assert found["dws.c"].policy == "recompute" and found["dwd.a"].policy == ""
    assert {step.labels for step in cascade(tmp_path, queries, "dwd.a", whole=True).values()} == {None}


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (
            "SELECT id, k, sum(v) OVER (PARTITION BY k ORDER BY logdate, id) AS v, logdate FROM dwd.a",
            "`logdate` is not in the PARTITION BY of",
        ),
        ("SELECT id, k, v, substr(k, 1, 10) AS logdate FROM dwd.a", "`logdate` is computed"),
        ("SELECT id, v, k AS logdate FROM dwd.a", "`logdate` equals `k` of dwd.a, which is partitioned by"),
        (
            "SELECT x.id, x.k, y.v, x.logdate FROM stg.x x JOIN dwd.a y ON y.k = x.k",
            "by dwd.a: nothing in the query makes a column of it equal to `logdate` of stg.x",
        ),
        ("SELECT id, k, v, logdate FROM stg.x ORDER BY v LIMIT (SELECT count(*) FROM dwd.a)", "dwd.a"),
    ],
)
def test_widened_to_the_whole_table_in_words(tmp_path: Path, query: str, reason: str) -> None:
    queries = {"dwd.a": copy("stg.x"), "dws.b": query, "dws.c": copy("dws.b")}
    found = cascade(tmp_path, queries, "dwd.a")
    assert found["dws.b"].labels is None and reason in found["dws.b"].reason
    assert found["dws.c"].labels is None
    assert found["dws.c"].reason == "the whole table: all of dws.b is run again"


def test_a_join_on_the_partition_column_keeps_the_range(tmp_path: Path) -> None:
    query = (
        "SELECT x.id, x.k, y.v, x.logdate FROM stg.x x JOIN dwd.a y ON y.k = x.k AND y.logdate = x.logdate"
    )
    found = cascade(tmp_path, {"dwd.a": copy("stg.x"), "dws.b": query}, "dwd.a")
    assert found["dws.b"].labels == HOURS


def test_each_branch_of_a_union_keeps_its_labels(tmp_path: Path) -> None:
    query = "SELECT id, k, v, logdate FROM dwd.a UNION ALL SELECT id, k, v, logdate FROM stg.x"
    found = cascade(tmp_path, {"dwd.a": copy("stg.x"), "dws.b": query}, "dwd.a")
    assert found["dws.b"].labels == HOURS


def test_a_diamond_takes_the_widest_of_its_sides(tmp_path: Path) -> None:
    queries = {
        "dwd.a": copy("stg.x"),
        "dws.narrow": copy("dwd.a"),
        "dws.wide": "SELECT id, v, k AS logdate FROM dwd.a",
        "dws.z": "SELECT n.id, n.k, w.v, n.logdate FROM dws.narrow n "
        "JOIN dws.wide w ON w.id = n.id AND w.logdate = n.logdate",
    }
    found = cascade(tmp_path, queries, "dwd.a")
    assert found["dws.narrow"].labels == HOURS
    assert found["dws.z"].labels is None


def test_a_table_without_partitions_is_run_whole(tmp_path: Path) -> None:
    queries = {"dwd.a": copy("stg.x"), "*dws.t": "SELECT max(id) AS id, k FROM dwd.a GROUP BY k"}
    found = cascade(tmp_path, queries, "dwd.a")
    assert found["dws.t"].labels is None
    assert found["dws.t"].reason == "the whole table: `dws.t` has no partitions"


def test_parts_cover_every_label_and_hold_few_partitions(tmp_path: Path) -> None:
    spec = write_table(tmp_path, copy("stg.x"), key="id", name="dwd.a")
    hours = [f"20240101{h:02}" for h in range(24)]
    assert chunks(spec, hours, LabelRange(hours[0], hours[23]), 24) == [LabelRange(hours[0], hours[23])]
    assert chunks(spec, hours, LabelRange(hours[0], hours[23]), 10) == [
        LabelRange(hours[0], hours[9]),
        LabelRange(hours[10], hours[19]),
        LabelRange(hours[20], hours[23]),
    ]
    # Empty hours cost nothing: a part ends where the next one's first rows begin.
    some = [hours[3], hours[4], hours[20]]
    assert chunks(spec, some, LabelRange(hours[0], hours[23]), 2) == [
        LabelRange(hours[0], hours[19]),
        LabelRange(hours[20], hours[23]),
    ]
    assert chunks(spec, [], LabelRange(hours[0], hours[23]), 1) == [LabelRange(hours[0], hours[23])]
    assert chunks(spec, hours, None, 1) == [None]
