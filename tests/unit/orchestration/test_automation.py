"""Checks and alerts that Dagster begins by itself, layer by layer."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest
from definitions_support import FakeGateway, connect, write_project

from headrace.orchestration.automation import JOB, Known, alerts
from headrace.orchestration.build import build_definitions
from headrace.orchestration.gateway import GatewayResource
from headrace.results import TableStatus

HOUR = dg.AssetKey(["dws", "user_hour"])
WELL = TableStatus(
    table="dws.user_hour",
    mode="CONTINUOUS",
    state="RUNNING",
    strategy="ROW",
    declared_freshness=10,
    freshness_to_keep=10,
    measured_p90=1.5,
    version=7,
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_project(tmp_path)


def changed(**fields: object) -> TableStatus:
    return WELL.model_copy(update=fields)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("halted", {"state": "NEEDS RESYNC", "last_error": "the slot is lost"}),
        ("alarm", {"alarms": ["9 GiB of log are kept for the connector `shop`"]}),
        ("freshness", {"measured_p90": 12.0}),
        ("dead_letters", {"dead_letters": 3}),
    ],
)
def test_a_problem_is_told_when_it_begins_and_when_it_comes_back(
    kind: str, fields: dict[str, object]
) -> None:
    new, known = alerts(changed(**fields), {}, None)
    assert list(new) == [kind]
    again, known = alerts(changed(**fields), {}, known)
    assert again == {}
    over, known = alerts(WELL, {}, known)
    assert over == {}
    assert list(alerts(changed(**fields), {}, known)[0]) == [kind]


def test_late_data_and_other_columns_are_told_once_each() -> None:
    first, known = alerts(changed(late_changes=4), {"a": "int"}, None)
    assert first == {} and known == Known(late_changes=4, columns={"a": "int"})
    new, known = alerts(changed(late_changes=6), {"a": "bigint", "b": "string"}, known)
    assert new == {
        "late_data": "2 changes of complete partitions were let be, as the table declares",
        "columns": "columns have changed: a int → bigint, b new → string",
    }
    assert alerts(changed(late_changes=6), {"a": "bigint", "b": "string"}, known)[0] == {}
    assert alerts(changed(late_changes=6), {}, known)[0] == {}  # its files are made anew


def test_sensors_of_a_layer_are_on_where_the_setting_names_it(project: Path) -> None:
    (project / "headrace.toml").write_text('automation = "dws, stg"\n')
    repository = build_definitions(project).get_repository_def()
    on = {s.name for s in repository.sensor_defs if s.default_status is dg.DefaultSensorStatus.RUNNING}
    assert on == {"streams", "automation_dws", "alerts_dws", "automation_stg", "alerts_stg"}
    assert {"automation_dwd", "alerts_dwd"} <= {s.name for s in repository.sensor_defs}


def test_checks_are_evaluated_once_a_partition_is_complete(project: Path) -> None:
    definitions = build_definitions(project)
    selection = dg.AssetSelection.groups("dws")
    with dg.instance_for_test() as instance:

        def requested(cursor: object) -> tuple[set[str], object]:
            found = dg.evaluate_automation_conditions(definitions, instance, selection, cursor=cursor)
            return {r.key.name for r in found.results if r.true_subset.size}, found.cursor

        def report(event: dg.AssetMaterialization | dg.AssetCheckEvaluation) -> None:
            instance.report_runless_asset_event(event)

        report(dg.AssetMaterialization(HOUR, partition="2026010100"))
        names, cursor = requested(None)
        assert names == set()  # what was there before the sensor was on
        report(dg.AssetMaterialization(HOUR, partition="2026010101"))
        for check in ("parity", "counted"):
            report(dg.AssetCheckEvaluation(HOUR, check, passed=True))
        names, cursor = requested(cursor)
        assert names == {"parity", "counted", "plausible"}
        assert requested(cursor)[0] == set()


def test_a_problem_is_a_failed_run(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = FakeGateway()
    connect(monkeypatch, project, gateway)
    gateway.status = [changed(dead_letters=3).model_dump(mode="json")]
    repository = build_definitions(project).get_repository_def()
    with (
        dg.instance_for_test() as instance,
        dg.build_sensor_context(
            instance,
            repository_def=repository,
            sensor_name="alerts_dws",
            resources={"gateway": GatewayResource(project="")},
        ) as context,
    ):
        tick = repository.get_sensor_def("alerts_dws").evaluate_tick(context)
        [request] = tick.run_requests or []
        assert request.tags["headrace/alert"] == "dead_letters"
        run = repository.get_job(JOB).execute_in_process(
            run_config=request.run_config, instance=instance, raise_on_error=False
        )
        assert not run.success
        [failed] = [e for e in run.all_events if e.is_step_failure]
        assert "dws.user_hour: dead_letters: 3 messages" in str(failed.step_failure_data)
