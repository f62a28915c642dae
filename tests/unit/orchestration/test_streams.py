"""What the stream sensor reports of continuous tables."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest
from definitions_support import FakeGateway, connect, write_project
from deltalake import write_deltalake

from headrace.orchestration import streams
from headrace.orchestration.build import build_definitions
from headrace.orchestration.gateway import GatewayResource
from headrace.orchestration.lineage import asset_key
from headrace.orchestration.partitions import partitions_of
from headrace.orchestration.streams import ENOUGH_EVENTS, MOST_PARTITIONS, Report, Seen
from headrace.results import CheckEvaluation, CompletePartition, ParityResult, TableStatus
from headrace.settings import Settings
from headrace.spec import TableSpec, load_project
from headrace.spec.model import TableName

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
        now: datetime = NOW,
        completed: Sequence[CompletePartition] = (),
    ) -> None:
        self.asked = 0

        def show(_: TableSpec) -> list[CompletePartition]:
            self.asked += 1
            return list(completed)

        partitions = partitions_of(spec, None, now=now, start=date(2026, 11, 20))
        asset = dg.AssetSpec(asset_key(spec.name), partitions_def=partitions)
        report = Report(now, show)
        self.seen = report.table(spec, asset, told, seen)
        self.observations = [e for e in report.events if isinstance(e, dg.AssetObservation)]
        self.materialized = [e.partition for e in report.events if isinstance(e, dg.AssetMaterialization)]
        self.events = report.events


NAMES = ("runs", "freshness", "parity", "accounting")


def checks(
    told: TableStatus, seen: Seen, *evaluations: CheckEvaluation, materialized: bool = False
) -> dict[str, dg.AssetCheckEvaluation]:
    """What a tick reports of the checks of `dws.user_hour`, which is what `NAMES` says."""
    asset = dg.AssetSpec(asset_key(TableName("dws", "user_hour")))
    report = Report(NOW, lambda _: [])
    if materialized:
        report.events.append(dg.AssetMaterialization(asset.key))
    report.checks(asset, NAMES, told, evaluations, seen)
    found = [e for e in report.events if isinstance(e, dg.AssetCheckEvaluation)]
    assert {e.asset_key for e in found} <= {asset.key}
    return {e.check_name: e for e in found}


def proof(*, equal: bool, at: datetime = NOW) -> CheckEvaluation:
    result = ParityResult(
        table="dws.user_hour",
        against="batch",
        equal=equal,
        rows=9,
        missing=0 if equal else 2,
        extra=0,
        version=7,
    )
    return CheckEvaluation.of(result, "2026112010 … 2026112011").model_copy(update={"evaluated_at": at})


def test_what_was_proven_by_anybody_is_shown_once_and_after_each_materialization() -> None:
    seen = Seen()
    [differs] = [e for n, e in checks(status(), seen, proof(equal=False)).items() if n == "parity"]
    assert not differs.passed and differs.description == "2 rows missing, 0 too many"
    assert differs.metadata["labels"].value == "2026112010 … 2026112011"
    assert differs.metadata["evaluated_at"].value == NOW.timestamp()
    assert checks(status(), seen, proof(equal=False)) == {}
    later = proof(equal=True, at=NOW + timedelta(seconds=1))
    assert checks(status(), seen, later)["parity"].passed
    again = checks(status(), seen, later, materialized=True)
    assert {name: e.passed for name, e in again.items()} == {"runs": True, "parity": True}
    unknown = later.model_copy(update={"check": "gone", "evaluated_at": NOW + timedelta(seconds=2)})
    assert checks(status(), seen, later, unknown) == {}


@pytest.mark.parametrize(
    ("fields", "severity", "says"),
    [
        ({"state": "FAILED", "last_error": "a key twice"}, "ERROR", "FAILED: a key twice"),
        ({"state": "NEEDS RESYNC", "last_error": "events are gone"}, "ERROR", "events are gone"),
        ({"alarms": ["the connector stands still"]}, "ERROR", "stands still"),
        ({"state": "SUSPENDED"}, "WARN", "headrace resume dws.user_hour"),
        ({"state": "INITIALIZING", "last_error": "waits for shop"}, "WARN", "waits for shop"),
    ],
)
def test_a_table_that_does_not_run_is_seen(fields: dict[str, object], severity: str, says: str) -> None:
    seen = Seen()
    assert checks(status(), seen)["runs"].passed
    broken = checks(status(**fields), seen)["runs"]
    assert not broken.passed and broken.severity.value == severity and says in (broken.description or "")
    assert "runs" not in checks(status(**fields), seen)
    assert checks(status(), seen)["runs"].passed


def test_a_freshness_that_is_missed_is_an_error_until_it_is_kept() -> None:
    seen = Seen()
    kept = status(freshness_to_keep=10.0, measured_p90=9.0)
    late = status(freshness_to_keep=10.0, measured_p90=12.5)
    assert checks(kept, seen)["freshness"].passed
    missed = checks(late, seen)["freshness"]
    assert not missed.passed and missed.description == "nine in ten commits kept 12.5 s, 10 s are declared"
    assert checks(status(freshness_to_keep=10.0, measured_p90=13.0), seen) == {}
    assert "freshness" not in checks(status(state="SUSPENDED", freshness_to_keep=10.0), seen)
    assert checks(status(freshness_to_keep=10.0), seen)["freshness"].passed  # nothing has changed


def test_first_sight(spec: TableSpec) -> None:
    before, [first, *others] = complete("2026111923"), complete(*HOURS, first=2, rows=4)
    others[0].rows = None  # nobody has counted them
    # Dagster's partitions begin after the first of these.
    tick = Tick(spec, status(outcomes=4), Seen(), completed=[*before, first, *others])
    [observation] = tick.observations
    assert observation.metadata["version"].value == 7
    assert observation.metadata["freshness_seconds"].value == 1.5
    assert tick.materialized == list(HOURS)
    counts = [e.metadata.get("dagster/partition_row_count") for e in tick.events[1:]]
    assert [None if c is None else c.value for c in counts] == [4, None, 4]


def test_nothing_new_is_nothing_reported(spec: TableSpec) -> None:
    completed = complete(*HOURS)
    seen = Tick(spec, status(outcomes=3), Seen(), completed=completed).seen
    later = Tick(spec, status(outcomes=3), seen, NOW + timedelta(seconds=30), completed)
    assert later.events == [] and later.asked == 0


def test_a_commit_is_observed(spec: TableSpec) -> None:
    seen = Tick(spec, status(), Seen()).seen
    later = Tick(spec, status(version=8), seen, NOW + timedelta(seconds=30))
    assert len(later.observations) == 1 and later.materialized == []


def test_declared_and_measured_freshness_are_numbers(spec: TableSpec) -> None:
    """Which Dagster plots."""
    told = status(freshness_to_keep=10.0, measured_p50=1.0, measured_p90=2.5, lag=3)
    [observation] = Tick(spec, told, Seen()).observations
    names = ("declared_freshness", "freshness", "freshness_p50", "freshness_p90")
    shown = [observation.metadata[f"{name}_seconds"] for name in names]
    assert [m.value for m in (*shown, observation.metadata["lag"])] == [10.0, 1.5, 1.0, 2.5, 3]
    assert all(isinstance(m, dg.FloatMetadataValue) for m in shown)


def test_another_freshness_is_observed(spec: TableSpec) -> None:
    """Of a statement or a calendar: nothing need change of the rows."""
    seen = Tick(spec, status(freshness_to_keep=3600.0), Seen()).seen
    assert Tick(spec, status(freshness_to_keep=3600.0), seen).observations == []
    [observation] = Tick(spec, status(freshness_to_keep=10.0), seen).observations
    assert observation.metadata["declared_freshness_seconds"].value == 10.0


def test_a_table_without_partitions_is_materialized_each_hour_while_it_is_fresh(tmp_path: Path) -> None:
    spec = load_project(write_project(tmp_path)).table("stg.users")
    first = Tick(spec, status(), Seen())
    assert first.materialized == [None] and first.asked == 0
    assert Tick(spec, status(), first.seen, NOW + timedelta(minutes=59)).materialized == []
    assert Tick(spec, status(), first.seen, NOW + timedelta(minutes=60)).materialized == [None]
    late = status(lag=5, measured_freshness=60.0)
    assert Tick(spec, late, first.seen, NOW + timedelta(minutes=60)).materialized == []


def test_each_outcome_is_reported_once_and_says_what_came_of_it(spec: TableSpec) -> None:
    known = complete(*HOURS)
    seen = Tick(spec, status(outcomes=3), Seen(), completed=known).seen
    [late] = complete(HOURS[0], first=5, outcome="REPAIRED", detail="2 inserted", reopened=1)
    [waiting] = complete("2026112014", outcome="WAITING", finished_at=None)
    known = [late, *known[1:], *complete("2026112013", first=4), waiting.model_copy(update={"turn": 0})]
    done = Tick(spec, status(outcomes=5), seen, completed=known)
    assert done.materialized == ["2026112013", "2026112010"]
    metadata = done.events[-1].metadata
    assert (metadata["outcome"].value, metadata["detail"].value) == ("REPAIRED", "2 inserted")
    assert (metadata["reopened"].value, metadata["watermark"].value) == (1, NOW.timestamp())
    assert Tick(spec, status(outcomes=5), done.seen, completed=known).events == []


def test_a_table_on_a_schedule_reports_its_complete_partitions_too(spec: TableSpec) -> None:
    told = status(mode="INCREMENTAL", outcomes=3)
    tick = Tick(spec, told, Seen(), completed=complete(*HOURS))
    assert len(tick.observations) == 1 and tick.materialized == list(HOURS)


@pytest.mark.parametrize("state", ["SUSPENDED", "FAILED", "NEEDS RESYNC", "INITIALIZING"])
def test_a_table_that_does_not_run_is_only_observed(spec: TableSpec, state: str) -> None:
    tick = Tick(spec, status(state=state, last_error="why"), Seen())
    assert [e.metadata["state"].value for e in tick.observations] == [state]
    assert tick.observations[0].metadata["last_error"].value == "why"
    assert tick.materialized == []


def test_a_long_history_is_reported_in_parts(spec: TableSpec) -> None:
    days = [NOW + timedelta(hours=h) for h in range(MOST_PARTITIONS + 100)]
    known = complete(*(f"{day:%Y%m%d%H}" for day in days))
    told = status(outcomes=len(known))
    first = Tick(spec, told, Seen(), completed=known)
    assert len(first.materialized) == MOST_PARTITIONS
    second = Tick(spec, told, first.seen, NOW + timedelta(seconds=30), known)
    assert [*first.materialized, *second.materialized] == [p.label for p in known]


def test_what_was_proven_does_not_wait_for_a_long_history_of_partitions() -> None:
    seen, report = Seen(), Report(NOW, lambda _: [])
    asset = dg.AssetSpec(asset_key(TableName("dws", "user_hour")))
    report.events += [dg.AssetMaterialization(["dws", "other"])] * MOST_PARTITIONS
    report.closed = MOST_PARTITIONS
    assert not report.is_enough
    report.checks(asset, NAMES, status(), [proof(equal=True)], seen)
    assert {e.check_name for e in report.events[MOST_PARTITIONS:]} == {"runs", "parity"}


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
    gateway.results["SHOW CHECKS"] = [proof(equal=False).model_dump(mode="json")]
    defs = build_definitions(project)
    tick = evaluate(defs)
    kinds = {(e.asset_key.to_user_string(), type(e).__name__) for e in tick.asset_events}
    assert kinds == {
        ("dws/user_hour", "AssetObservation"),
        ("dws/user_hour", "AssetMaterialization"),
        ("dws/user_hour", "AssetCheckEvaluation"),
        ("dws/user_total", "AssetObservation"),  # its runs materialize it
        ("dws/user_total", "AssetCheckEvaluation"),
    }
    assert {e.partition for e in tick.asset_events} == {None, *HOURS}
    shown = {e.check_name: e.passed for e in tick.asset_events if isinstance(e, dg.AssetCheckEvaluation)}
    assert shown == {"runs": True, "parity": False}
    assert len(gateway.submitted) == 2
    assert evaluate(defs, tick.cursor).asset_events == []
    assert gateway.submitted[2:] == ["SHOW CHECKS"]


def test_of_very_many_tables_each_has_its_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway, project = FakeGateway(), write_project(tmp_path)
    connect(monkeypatch, project, gateway)
    monkeypatch.setattr(streams, "ENOUGH_EVENTS", 1)
    tables = ("dws.user_hour", "dws.user_total")
    gateway.status = [status(table=table, mode="FULL").model_dump(mode="json") for table in tables]
    gateway.results["SHOW CHECKS"] = []
    defs = build_definitions(project)
    first = evaluate(defs)
    second = evaluate(defs, first.cursor)
    seen = [{e.asset_key.to_user_string() for e in tick.asset_events} for tick in (first, second)]
    assert seen == [{"dws/user_hour"}, {"dws/user_total"}]
    assert evaluate(defs, second.cursor).asset_events == []


def test_no_table_waits_for_another_ones_long_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway, project = FakeGateway(), write_project(tmp_path)
    connect(monkeypatch, project, gateway)
    labels = [f"{NOW + timedelta(hours=h):%Y%m%d%H}" for h in range(ENOUGH_EVENTS + 1)]
    gateway.status = [
        status(outcomes=len(labels)).model_dump(mode="json"),
        status(table="dws.user_total", mode="FULL").model_dump(mode="json"),
    ]
    gateway.results["SHOW PARTITIONS dws.user_hour"] = [p.model_dump(mode="json") for p in complete(*labels)]
    gateway.results["SHOW CHECKS"] = []
    tick = evaluate(build_definitions(project))
    assert [e.partition for e in tick.asset_events if e.partition] == labels
    assert "dws/user_total" in {e.asset_key.to_user_string() for e in tick.asset_events}


def test_of_two_long_histories_each_has_its_turn() -> None:
    """Whoever had room for its partitions in a tick has it last in the next."""
    had, had_none = Seen(looked=5, closed=5), Seen(looked=5, closed=3)
    assert sorted([had, had_none, Seen(looked=4, closed=9)], key=lambda s: s.waited)[1:] == [had_none, had]


def test_where_no_server_answers_every_table_is_red_until_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway, project = FakeGateway(), write_project(tmp_path)
    connect(monkeypatch, project, gateway)
    gateway.status, gateway.results["SHOW CHECKS"] = [status().model_dump(mode="json")], []
    defs = build_definitions(project)
    seen = evaluate(defs)
    gateway.reachable = False
    gone = evaluate(defs, seen.cursor)
    assert len(gone.asset_events) == len(load_project(project).tables)
    assert {(e.check_name, e.passed) for e in gone.asset_events} == {("runs", False)}
    assert "headrace up" in evaluate(defs, gone.cursor).skip_message
    gateway.reachable = True
    [back] = evaluate(defs, gone.cursor).asset_events
    assert (back.asset_key, back.check_name, back.passed) == (
        asset_key(TableName("dws", "user_hour")),
        "runs",
        True,
    )


def test_of_a_standby_nothing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway, project = FakeGateway(), write_project(tmp_path)
    connect(monkeypatch, project, gateway)
    gateway.serving = "process 7 of elsewhere"
    tick = evaluate(build_definitions(project))
    assert "process 7 of elsewhere serves" in str(tick.skip_message) and not tick.asset_events


def test_older_partitions_than_dagster_knows_load_its_definitions_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has happened to them is reported then, and not before."""
    gateway, project = FakeGateway(), write_project(tmp_path)
    connect(monkeypatch, project, gateway)
    asked: list[str | None] = []
    monkeypatch.setattr(streams, "reload_definitions", lambda context: asked.append(context.cursor))
    folder = Settings.load(project).warehouse / "dws" / "user_hour" / "snapshot"
    write_deltalake(str(folder), pa.table({"n": [1], "logdate": [HOURS[2]]}), partition_by=["logdate"])
    defs = build_definitions(project)
    write_deltalake(str(folder), pa.table({"n": [1], "logdate": [HOURS[0]]}), mode="append")
    gateway.status = [status(outcomes=3).model_dump(mode="json")]
    gateway.results["SHOW PARTITIONS dws.user_hour"] = [p.model_dump(mode="json") for p in complete(*HOURS)]
    gateway.results["SHOW CHECKS"] = []
    tick = evaluate(defs)
    assert asked == [None] and {e.partition for e in tick.asset_events if e.partition} == set()
    again = evaluate(build_definitions(project), tick.cursor)
    assert len(asked) == 1 and [e.partition for e in again.asset_events if e.partition] == list(HOURS)
