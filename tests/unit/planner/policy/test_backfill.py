"""What a backfill compares and records, for each state that a table can be found in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from planner_support import write_table

from headrace.planner.policy.backfill import TableState, plan_backfill
from headrace.spec.model import TableSpec
from headrace.spec.partitions.label_range import LabelRange

QUERY = "SELECT order_id, logdate FROM dwd.orders"
HOURS = LabelRange("2024010103", "2024010105")
STATE = TableState(version=7, reached={"dwd.orders": 3}, upstreams={"dwd.orders": 5})


@pytest.fixture
def spec(tmp_path: Path) -> TableSpec:
    return write_table(tmp_path, QUERY, key="order_id")


@pytest.fixture
def offline(tmp_path: Path) -> TableSpec:
    return write_table(tmp_path, QUERY, key="order_id", options="'run.mode' = 'offline'")


def test_a_range_is_computed_where_the_table_stands(spec: TableSpec) -> None:
    plan = plan_backfill(spec, STATE, HOURS)
    assert (plan.labels, plan.version, plan.frontier) == (HOURS, 7, {"dwd.orders": 3})
    assert not plan.restarts and not plan.exclusive and not plan.sole_writer
    assert str(plan) == "dws.result@7: 2024010103 … 2024010105 from dwd.orders@3"


def test_what_was_removed_unseen_is_met_by_the_whole_table_alone(spec: TableSpec) -> None:
    lost = replace(STATE, continues=False)
    part, whole = plan_backfill(spec, lost, HOURS), plan_backfill(spec, lost, None)
    assert not part.restarts and part.frontier == {"dwd.orders": 3}
    assert whole.restarts and whole.exclusive and whole.frontier == {"dwd.orders": 5}
    assert str(whole) == "dws.result@7: everything from dwd.orders@5, where it goes on"


def test_rows_that_are_given_belong_to_their_version_and_frontier(spec: TableSpec) -> None:
    lost = replace(STATE, continues=False)
    plan = plan_backfill(spec, lost, None, rows_given=True, version=4)
    assert (plan.version, plan.frontier, plan.restarts) == (4, {"dwd.orders": 3}, False)
    plan = plan_backfill(spec, STATE, None, rows_given=True, frontier={"dwd.orders": 9})
    assert (plan.version, plan.frontier, plan.restarts) == (7, {"dwd.orders": 9}, True)


def test_immutable_partitions_are_left_out(spec: TableSpec) -> None:
    closed = replace(STATE, immutable_before="2024010104")
    assert plan_backfill(spec, closed, HOURS).labels == LabelRange("2024010104", "2024010105")
    whole = plan_backfill(spec, closed, None).labels
    assert whole is not None and whole.start == "2024010104" and "2124010104" in whole
    opened = plan_backfill(spec, closed, HOURS, immutable_before="")
    assert (opened.labels, opened.immutable_before, opened.exclusive) == (HOURS, "", True)
    assert str(opened).endswith(", immutable before nothing")


def test_a_table_that_streams_again_has_no_last_partition_once_all_of_it_was_computed(
    spec: TableSpec,
) -> None:
    bounded = replace(STATE, complete_through="2024010104")
    assert plan_backfill(spec, bounded, HOURS).complete_through == "2024010104"
    whole = plan_backfill(spec, bounded, None)
    assert (whole.complete_through, whole.was_complete_through) == ("", "2024010104")
    assert whole.exclusive and str(whole).endswith(", complete through all that there is")


def test_a_table_that_the_batch_alone_writes_keeps_its_bound_until_a_run_moves_it(offline: TableSpec) -> None:
    bounded = replace(STATE, complete_through="2024010104")
    assert plan_backfill(offline, bounded, None).complete_through == "2024010104"
    run = plan_backfill(offline, bounded, HOURS, frontier={"dwd.orders": 5}, complete_through="2024010105")
    assert (run.complete_through, run.sole_writer, run.exclusive) == ("2024010105", True, True)
