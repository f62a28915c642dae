"""What the stream sensor reports of continuous tables."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest
from definitions_support import FakeGateway, connect, counts, write_project

from headrace.orchestration.build import build_definitions
from headrace.orchestration.gateway import GatewayResource
from headrace.orchestration.lineage import asset_key
from headrace.orchestration.partitions import partitions_of
from headrace.orchestration.statements import LabelRange
from headrace.orchestration.streams import MOST_EVENTS, Report, Seen
from headrace.results import TableStatus
from headrace.spec import TableSpec, load_project

NOW = datetime(2026, 11, 20, 13, 30, tzinfo=UTC)


@pytest.fixture
def spec(tmp_path: Path) -> TableSpec:
    return load_project(write_project(tmp_path)).table("dws.user_hour")


def status(**fields: object) -> TableStatus:
    known: dict[str, object] = {
        "table": "dws.user_hour",
        "mode": "CONTINUOUS",
        "state": "RUNNING",
        "strategy": "AFFECTED_KEYS",
        "declared_freshness": 10.0,
        "measured_freshness": 1.5,
        "lag": 0,
        "rows": 12,
        "version": 7,
        "frontier": {"dwd.orders": 9},
    }
    return TableStatus.model_validate(known | fields)


class Tick:
    """One evaluation over `dws.user_hour`."""

    def __init__(
        self, spec: TableSpec, told: TableStatus, seen: Seen, rows: dict[str, int], now: datetime = NOW
    ) -> None:
        self.counted: list[LabelRange] = []

        def count(_: TableSpec, labels: LabelRange) -> dict[str, int]:
            self.counted.append(labels)
            return rows

        partitions = partitions_of(spec, date(2026, 11, 20))
        asset = dg.AssetSpec(asset_key(spec.name), partitions_def=partitions)
        report = Report(now, count)
        self.seen = report.table(spec, asset, told, seen)
        self.observations = [e for e in report.events if isinstance(e, dg.AssetObservation)]
        self.materialized = [e.partition for e in report.events if isinstance(e, dg.AssetMaterialization)]
        self.events = report.events


def test_first_sight(spec: TableSpec) -> None:
    tick = Tick(spec, status(), Seen(), {"2026112010": 4, "2026112012": 5})
    [observation] = tick.observations
    assert observation.metadata["version"].value == 7
    assert observation.metadata["freshness_seconds"].value == 1.5
    assert tick.materialized == ["2026112010", "2026112011", "2026112012"]
    assert [e.metadata["dagster/partition_row_count"].value for e in tick.events[1:]] == [4, 0, 5]
    assert tick.counted == [LabelRange("2026112000", "2026112012")]


def test_nothing_new_is_nothing_reported(spec: TableSpec) -> None:
    seen = Tick(spec, status(), Seen(), {"2026112010": 4}).seen
    later = Tick(spec, status(), seen, {}, NOW + timedelta(seconds=30))
    assert later.events == [] and later.counted == []


def test_a_commit_is_observed(spec: TableSpec) -> None:
    seen = Tick(spec, status(), Seen(), {"2026112010": 4}).seen
    later = Tick(spec, status(version=8), seen, {}, NOW + timedelta(seconds=30))
    assert len(later.observations) == 1 and later.materialized == []


def test_declared_and_measured_freshness_are_numbers(spec: TableSpec) -> None:
    """Which Dagster plots."""
    told = status(freshness_to_keep=10.0, measured_p50=1.0, measured_p90=2.5, lag=3)
    [observation] = Tick(spec, told, Seen(), {}).observations
    names = ("declared_freshness", "freshness", "freshness_p50", "freshness_p90")
    shown = [observation.metadata[f"{name}_seconds"] for name in names]
    assert [m.value for m in (*shown, observation.metadata["lag"])] == [10.0, 1.5, 1.0, 2.5, 3]
    assert all(isinstance(m, dg.FloatMetadataValue) for m in shown)


def test_another_freshness_is_observed(spec: TableSpec) -> None:
    """Of a statement or a calendar: nothing need change of the rows."""
    seen = Tick(spec, status(freshness_to_keep=3600.0), Seen(), {}).seen
    assert Tick(spec, status(freshness_to_keep=3600.0), seen, {}).observations == []
    [observation] = Tick(spec, status(freshness_to_keep=10.0), seen, {}).observations
    assert observation.metadata["declared_freshness_seconds"].value == 10.0


def test_a_table_without_partitions_is_materialized_each_hour_while_it_is_fresh(tmp_path: Path) -> None:
    spec = load_project(write_project(tmp_path)).table("stg.users")
    first = Tick(spec, status(), Seen(), {})
    assert first.materialized == [None] and first.counted == []
    assert Tick(spec, status(), first.seen, {}, NOW + timedelta(minutes=59)).materialized == []
    assert Tick(spec, status(), first.seen, {}, NOW + timedelta(minutes=60)).materialized == [None]
    late = status(lag=5, measured_freshness=60.0)
    assert Tick(spec, late, first.seen, {}, NOW + timedelta(minutes=60)).materialized == []


def test_an_hour_is_complete_once_the_stream_is_past_it(spec: TableSpec) -> None:
    seen = Tick(spec, status(), Seen(), {"2026112010": 4}).seen
    turn = datetime(2026, 11, 20, 14, 0, tzinfo=UTC)
    assert Tick(spec, status(), seen, {}, turn + timedelta(seconds=59)).materialized == []
    lagging = status(lag=3, measured_freshness=600.0)
    assert Tick(spec, lagging, seen, {}, turn + timedelta(minutes=9)).materialized == []
    done = Tick(spec, lagging, seen, {"2026112013": 6}, turn + timedelta(minutes=10))
    assert done.materialized == ["2026112013"]
    assert done.counted == [LabelRange("2026112013", "2026112013")]


@pytest.mark.parametrize("state", ["SUSPENDED", "FAILED", "NEEDS RESYNC", "INITIALIZING"])
def test_a_table_that_does_not_run_is_only_observed(spec: TableSpec, state: str) -> None:
    tick = Tick(spec, status(state=state, last_error="why"), Seen(), {})
    assert [e.metadata["state"].value for e in tick.observations] == [state]
    assert tick.observations[0].metadata["last_error"].value == "why"
    assert tick.materialized == []


def test_a_long_history_is_reported_in_parts(spec: TableSpec) -> None:
    now = NOW + timedelta(days=40)
    rows = {"2026112000": 1}
    first = Tick(spec, status(), Seen(), rows, now)
    assert len(first.events) == MOST_EVENTS
    second = Tick(spec, status(), first.seen, rows, now + timedelta(seconds=30))
    assert second.materialized[0] > first.materialized[-1]
    assert len({*first.materialized, *second.materialized}) == 40 * 24 + 13


def sensor_of(defs: dg.Definitions) -> dg.SensorDefinition:
    return defs.get_repository_def().get_sensor_def("streams")


def evaluate(defs: dg.Definitions, cursor: str | None = None) -> dg.SensorResult | dg.SkipReason:
    sensor = sensor_of(defs)
    with (
        dg.instance_for_test() as instance,
        dg.build_sensor_context(
            instance,
            cursor=cursor,
            repository_def=defs.get_repository_def(),
            sensor_name="streams",
            resources={"gateway": GatewayResource(project="")},
        ) as context,
    ):
        return sensor.evaluate_tick(context)


def test_the_sensor_reads_the_gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway, project = FakeGateway(), write_project(tmp_path)
    connect(monkeypatch, project, gateway)
    gateway.status = [
        status().model_dump(),
        status(table="dws.user_total", mode="FULL").model_dump(),
        status(table="dws.dropped").model_dump(),
    ]
    gateway.tables["SELECT logdate AS label"] = counts({"2026112010": 2})
    defs = build_definitions(project)
    tick = evaluate(defs)
    kinds = {(e.asset_key.to_user_string(), type(e).__name__) for e in tick.asset_events}
    assert kinds == {
        ("dws/user_hour", "AssetObservation"),
        ("dws/user_hour", "AssetMaterialization"),
        ("dws/user_total", "AssetObservation"),  # its runs materialize it
    }
    assert len(gateway.submitted) == 1
    evaluate(defs, tick.cursor)
    assert len(gateway.submitted) == 1


def test_no_gateway_is_a_skipped_tick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway, project = FakeGateway(), write_project(tmp_path)
    connect(monkeypatch, project, gateway)
    gateway.reachable = False
    assert "headrace up" in evaluate(build_definitions(project)).skip_message
