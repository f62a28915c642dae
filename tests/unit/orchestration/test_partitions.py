"""Partitions in Dagster: from where the data begins to where it ends, in the zone of the labels."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest
from definitions_support import HOURLY, RANGE, write_project
from deltalake import write_deltalake

from headrace.orchestration.build import build_definitions
from headrace.orchestration.extent import Extent, Growth, shared_extents
from headrace.orchestration.partitions import label_of_key
from headrace.results import TableStatus
from headrace.settings import Settings
from headrace.spec import load_project
from headrace.spec.model import TableName

NOON = datetime(2026, 11, 28, 12, 30, tzinfo=UTC)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_project(tmp_path)


def store(project: Path, table: str, labels: Sequence[str | None], column: str = "logdate") -> None:
    """Give the table a snapshot with a row in each of these partitions."""
    layer, _, name = table.partition(".")
    folder = Settings.load(project).warehouse / layer / name / "snapshot"
    rows = pa.table({"id": range(len(labels)), column: pa.array(labels, pa.string())})
    write_deltalake(str(folder), rows, partition_by=[column], mode="append")


def keys(project: Path, now: datetime = NOON, start: date | None = None) -> dict[str, list[str]]:
    """First and last partition of each table that has some."""
    graph = build_definitions(project, start=start).resolve_asset_graph()
    found = {}
    with dg.partition_loading_context(effective_dt=now):
        for key in graph.executable_asset_keys:
            if (partitions := graph.get(key).partitions_def) is not None:
                first, last = partitions.get_first_partition_key(), partitions.get_last_partition_key()
                found[".".join(key.path)] = [str(first), str(last)]
    return found


def test_partitions_begin_where_the_data_of_connected_tables_begins(project: Path) -> None:
    store(project, "stg.orders", ["2026112014", "2026112103"])
    store(project, "dws.user_hour", ["2026112103"])
    store(project, "dws.user_day", ["2026-11-20"], "day")  # says no more of when in the day
    store(project, "stg.visits", ["2025112100"])  # is read whole: its partitions are its own
    found = keys(project)
    hours = ["2026112014", "2026112812"]
    assert found == {
        "stg.orders": hours,
        "dwd.orders": hours,
        "dws.user_hour": hours,
        "dws.user_day": ["2026-11-20", "2026-11-28"],
        "stg.visits": ["2025112100", "2026112812"],
    }


def test_a_week_of_a_year_ago_has_partitions_once_there_is_data_of_it(project: Path) -> None:
    store(project, "dwd.orders", ["2025111805"])
    partitions = build_definitions(project).resolve_asset_graph().get(dg.AssetKey(["dws", "user_hour"]))
    assert partitions.partitions_def is not None
    with dg.partition_loading_context(effective_dt=NOON):
        assert set(partitions.partitions_def.get_partition_keys()) >= {"2025111805", "2025112323"}


def test_partitions_reach_data_of_the_future_but_no_wrong_year(project: Path) -> None:
    now = datetime.now(UTC)
    store(project, "stg.visits", [f"{now:%Y%m%d%H}", "9999123123"])
    store(project, "stg.orders", [f"{now:%Y%m%d%H}", f"{now.year + 1}010100"])
    found = keys(project, now)
    assert found["stg.orders"][1] == f"{now.year + 1}010100"
    assert found["dws.user_day"][1] == f"{now.year + 1}-01-01"
    assert found["stg.visits"][1] < f"{now.year + 3}"


def test_a_day_that_no_hour_is_known_of_counts_whole(project: Path) -> None:
    store(project, "stg.orders", ["2026112014"])
    store(project, "dws.user_day", ["2026-11-10"], "day")
    assert keys(project)["dws.user_hour"][0] == "2026111000"


def test_what_names_no_time_does_not_count(project: Path) -> None:
    store(project, "stg.visits", [None, "unknown", "2026112014"])
    assert keys(project)["stg.visits"][0] == "2026112014"


def test_without_any_data_they_begin_at_a_constant(project: Path) -> None:
    assert keys(project)["dws.user_hour"] == ["2026010100", "2026112812"]


def test_a_declared_start_counts_for_every_table(project: Path) -> None:
    store(project, "stg.orders", ["2026112014"])
    found = keys(project, start=date(2026, 11, 1))
    assert {first for first, _ in found.values()} == {"2026110100", "2026-11-01"}


def test_partitions_follow_the_zone_of_the_labels(project: Path) -> None:
    zone = "'partition.time-zone' = 'Asia/Shanghai'"
    (project / "layers/dws/shanghai.sql").write_text(
        "CREATE MATERIALIZED TABLE dws.shanghai (PRIMARY KEY (user_id, logdate))\n"
        f"{HOURLY.replace('WITH (', f'WITH ({zone}, ')} FRESHNESS = INTERVAL '1' HOUR AS\n"
        f"SELECT user_id, logdate, COUNT(*) AS n FROM dwd.orders WHERE {RANGE} GROUP BY user_id, logdate"
    )
    store(project, "dws.shanghai", ["2026112014"])
    assert keys(project)["dws.shanghai"] == ["2026112014", "2026112820"]
    build_definitions(project).get_repository_def()  # Dagster maps no times of two zones


def test_a_day_needs_those_of_its_hours_that_there_are(project: Path) -> None:
    store(project, "stg.orders", ["2026112014"])
    graph = build_definitions(project).resolve_asset_graph()
    days, hours = (graph.get(dg.AssetKey(["dws", name])) for name in ("user_day", "user_hour"))
    assert days.partitions_def is not None and hours.partitions_def is not None
    mapping = days.partition_mappings[hours.key]
    with dg.partition_loading_context(effective_dt=NOON):
        first = days.partitions_def.subset_with_partition_keys(["2026-11-20", "2026-11-28"])
        read = mapping.get_upstream_mapped_partitions_result_for_partitions(
            first, days.partitions_def, hours.partitions_def
        )
        labels = sorted(read.partitions_subset.get_partition_keys())
    assert read.required_but_nonexistent_subset.is_empty
    assert (labels[0], labels[9], labels[10], labels[-1]) == (
        *("2026112014", "2026112023"),
        *("2026112800", "2026112812"),
    )


def test_an_hour_that_comes_twice_is_one_partition(project: Path) -> None:
    tables = load_project(project).tables
    hours, days = tables[TableName("dws", "user_hour")], tables[TableName("dws", "user_day")]
    assert label_of_key(hours, "2026102502+0100") == label_of_key(hours, "2026102502") == "2026102502"
    assert label_of_key(days, "2026-10-25") == "2026-10-25"


def test_older_data_and_first_data_are_noticed(project: Path) -> None:
    tables = load_project(project).tables
    orders, visits = TableName("stg", "orders"), TableName("stg", "visits")
    first, later = datetime(2026, 11, 20, 14), datetime(2026, 11, 21)
    then = shared_extents(tables, lambda s: Extent(later, later) if s.name == orders else None)
    assert then[orders] == then[TableName("dws", "user_day")] == Extent(later, later)
    assert then[visits] is None
    assert not Growth(lambda: then, then).look()
    assert not Growth(lambda: {**then, orders: Extent(later, datetime(2026, 12, 1))}, then).look()
    assert Growth(lambda: {**then, orders: Extent(first, later)}, then).look()
    assert Growth(lambda: {**then, visits: Extent(later, later)}, then).look()


def test_what_has_got_its_first_rows_is_looked_at_without_delay(project: Path) -> None:
    visits, day = TableName("stg", "visits"), datetime(2026, 11, 21)
    growth = Growth(lambda: {visits: Extent(day, day)}, {visits: None})
    status = TableStatus(
        table="stg.visits", mode="CONTINUOUS", state="RUNNING", strategy="ROW", declared_freshness=None
    )
    assert not growth.look_where_due([status])
    assert growth.look_where_due([status.model_copy(update={"rows": 1})])
