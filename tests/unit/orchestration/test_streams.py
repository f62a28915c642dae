"""What the stream sensor reports of continuous tables."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest
from definitions_support import FakeGateway, connect, counts, write_project

from headrace.orchestration.build import build_definitions
from headrace.orchestration.gateway import GatewayResource
from headrace.orchestration.lineage import asset_key
from headrace.orchestration.partitions import partitions_of
from headrace.orchestration.streams import MOST_EVENTS, Report, Seen
from headrace.results import CompletePartition, TableStatus
from headrace.spec import TableSpec, load_project
from headrace.spec.partitions.label_range import LabelRange

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


def complete(*labels: str, first: int = 1, **fields: object) -> list[CompletePartition]:
    """Partitions with outcomes, one after the other."""
    known: dict[str, object] = {
        "outcome": "COMPLETE", "watermark": NOW, "completed_at": NOW, "finished_at": NOW, "runs": 1,
        "reopened": 0, "detail": "", "version": 7,
    }  # fmt: skip
    found = [known | fields | {"label": label, "turn": t} for t, label in enumerate(labels, start=first)]
    return [CompletePartition.model_validate(f) for f in found]


HOURS = ("2026112010", "2026112011", "2026112012")


class Tick:
    """One evaluation over `dws.user_hour`."""

    def __init__(
        self,
        spec: TableSpec,
        told: TableStatus,
        seen: Seen,
        rows: dict[str, int],
        now: datetime = NOW,
        completed: Sequence[CompletePartition] = (),
    ) -> None:
        self.counted: list[LabelRange] = []
        self.asked = 0

        def count(_: TableSpec, labels: LabelRange) -> dict[str, int]:
            self.counted.append(labels)
            return rows

        def show(_: TableSpec) -> list[CompletePartition]:
            self.asked += 1
            return list(completed)

        partitions = partitions_of(spec, date(2026, 11, 20))
        asset = dg.AssetSpec(asset_key(spec.name), partitions_def=partitions)
        report = Report(now, count, show)
        self.seen = report.table(spec, asset, told, seen)
        self.observations = [e for e in report.events if isinstance(e, dg.AssetObservation)]
        self.materialized = [e.partition for e in report.events if isinstance(e, dg.AssetMaterialization)]
        self.events = report.events


def test_first_sight(spec: TableSpec) -> None:
    rows, before = {"2026112010": 4, "2026112012": 5}, "2026111923"  # Dagster's partitions begin later
    tick = Tick(spec, status(outcomes=4), Seen(), rows, completed=complete(before, *HOURS))
    [observation] = tick.observations
    assert observation.metadata["version"].value == 7
    assert observation.metadata["freshness_seconds"].value == 1.5
    assert tick.materialized == list(HOURS)
    assert [e.metadata["dagster/partition_row_count"].value for e in tick.events[1:]] == [4, 0, 5]
    assert tick.counted == [LabelRange("2026112010", "2026112012")]


def test_nothing_new_is_nothing_reported(spec: TableSpec) -> None:
    completed = complete(*HOURS)
    seen = Tick(spec, status(outcomes=3), Seen(), {}, completed=completed).seen
    later = Tick(spec, status(outcomes=3), seen, {}, NOW + timedelta(seconds=30), completed)
    assert later.events == [] and later.counted == [] and later.asked == 0


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


def test_each_outcome_is_reported_once_and_says_what_came_of_it(spec: TableSpec) -> None:
    known = complete(*HOURS)
    seen = Tick(spec, status(outcomes=3), Seen(), {}, completed=known).seen
    [late] = complete(HOURS[0], first=5, outcome="REPAIRED", detail="2 inserted", reopened=1)
    [waiting] = complete("2026112014", outcome="WAITING", finished_at=None)
    known = [late, *known[1:], *complete("2026112013", first=4), waiting.model_copy(update={"turn": 0})]
    done = Tick(spec, status(outcomes=5), seen, {"2026112013": 6}, completed=known)
    assert done.materialized == ["2026112013", "2026112010"]
    metadata = done.events[-1].metadata
    assert (metadata["outcome"].value, metadata["detail"].value) == ("REPAIRED", "2 inserted")
    assert (metadata["reopened"].value, metadata["watermark"].value) == (1, NOW.timestamp())
    assert done.counted == [LabelRange("2026112010", "2026112013")]
    assert Tick(spec, status(outcomes=5), done.seen, {}, completed=known).events == []


def test_a_table_on_a_schedule_reports_its_complete_partitions_too(spec: TableSpec) -> None:
    told = status(mode="INCREMENTAL", outcomes=3)
    tick = Tick(spec, told, Seen(), {}, completed=complete(*HOURS))
    assert len(tick.observations) == 1 and tick.materialized == list(HOURS)


@pytest.mark.parametrize("state", ["SUSPENDED", "FAILED", "NEEDS RESYNC", "INITIALIZING"])
def test_a_table_that_does_not_run_is_only_observed(spec: TableSpec, state: str) -> None:
    tick = Tick(spec, status(state=state, last_error="why"), Seen(), {})
    assert [e.metadata["state"].value for e in tick.observations] == [state]
    assert tick.observations[0].metadata["last_error"].value == "why"
    assert tick.materialized == []


def test_a_long_history_is_reported_in_parts(spec: TableSpec) -> None:
    days = [NOW + timedelta(hours=h) for h in range(MOST_EVENTS + 100)]
    known = complete(*(f"{day:%Y%m%d%H}" for day in days))
    told = status(outcomes=len(known))
    first = Tick(spec, told, Seen(), {}, completed=known)
    assert len(first.events) == MOST_EVENTS
    second = Tick(spec, told, first.seen, {}, NOW + timedelta(seconds=30), known)
    assert [*first.materialized, *second.materialized] == [p.label for p in known]


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
        status(outcomes=3).model_dump(mode="json"),
        status(table="dws.user_total", mode="FULL").model_dump(),
        status(table="dws.dropped").model_dump(),
    ]
    gateway.results["SHOW PARTITIONS dws.user_hour"] = [p.model_dump(mode="json") for p in complete(*HOURS)]
    gateway.tables["SELECT logdate AS label"] = counts({"2026112010": 2})
    defs = build_definitions(project)
    tick = evaluate(defs)
    kinds = {(e.asset_key.to_user_string(), type(e).__name__) for e in tick.asset_events}
    assert kinds == {
        ("dws/user_hour", "AssetObservation"),
        ("dws/user_hour", "AssetMaterialization"),
        ("dws/user_total", "AssetObservation"),  # its runs materialize it
    }
    assert {e.partition for e in tick.asset_events} == {None, *HOURS}
    assert len(gateway.submitted) == 2
    evaluate(defs, tick.cursor)
    assert len(gateway.submitted) == 2


def test_no_gateway_is_a_skipped_tick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway, project = FakeGateway(), write_project(tmp_path)
    connect(monkeypatch, project, gateway)
    gateway.reachable = False
    assert "headrace up" in evaluate(build_definitions(project)).skip_message
