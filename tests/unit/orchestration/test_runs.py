"""What a Dagster run does at the gateway: statements, progress, metadata, cancelling, failing."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.errors import DagsterExecutionInterruptedError
from definitions_support import FakeGateway, connect, counts, write_project

from headrace.orchestration.build import build_definitions

USER_HOUR = dg.AssetKey(["dws", "user_hour"])
RANGE = {
    "dagster/asset_partition_range_start": "2026112010",
    "dagster/asset_partition_range_end": "2026112012",
}


@pytest.fixture
def gateway() -> FakeGateway:
    return FakeGateway()


@pytest.fixture
def defs(tmp_path: Path, gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch) -> dg.Definitions:
    project = write_project(tmp_path)
    connect(monkeypatch, project, gateway)
    return build_definitions(project)


@pytest.fixture
def instance() -> Iterable[dg.DagsterInstance]:
    with dg.instance_for_test() as instance:
        yield instance


def refreshed(**fields: Any) -> dict[str, Any]:
    result = {
        "table": "dws.user_hour",
        "start": "2026112010",
        "end": "2026112012",
        "partitions": ["2026112011"],
    }
    numbers = {"rows": 7, "inserted": 3, "updated": 2, "deleted": 1, "version": 41, "seconds": 0.5}
    return result | numbers | fields


def materialize(
    defs: dg.Definitions, instance: dg.DagsterInstance, key: dg.AssetKey, **arguments: Any
) -> dg.ExecuteInProcessResult:
    """A run of the asset alone, without its checks."""
    job = defs.resolve_implicit_global_asset_job_def()
    subset = job.get_subset(asset_selection={key}, asset_check_selection=set())
    return subset.execute_in_process(instance=instance, **arguments)


def test_a_range_is_one_statement_with_numbers_per_partition(
    defs: dg.Definitions, gateway: FakeGateway, instance: dg.DagsterInstance
) -> None:
    gateway.results["ALTER"] = refreshed()
    gateway.tables["SELECT"] = counts({"2026112010": 4, "2026112012": 3})
    result = materialize(defs, instance, USER_HOUR, tags=RANGE)
    assert result.success
    assert gateway.submitted[0] == (
        "ALTER MATERIALIZED TABLE dws.user_hour REFRESH "
        "PARTITION (logdate BETWEEN '2026112010' AND '2026112012')"
    )
    events = {
        m.partition: m.metadata for m in result.asset_materializations_for_node("refresh_dws_user_hour")
    }
    assert {label: m["dagster/partition_row_count"].value for label, m in events.items()} == {
        "2026112010": 4,
        "2026112011": 0,
        "2026112012": 3,
    }
    metadata = events["2026112010"]
    assert [metadata[k].value for k in ("rows_in_range", "inserted", "updated", "deleted", "version")] == [
        *(7, 3, 2, 1, 41)
    ]
    assert not gateway.cancelled


def test_one_partition(defs: dg.Definitions, gateway: FakeGateway, instance: dg.DagsterInstance) -> None:
    gateway.results["ALTER"] = refreshed()
    gateway.tables["SELECT"] = counts({})
    assert materialize(defs, instance, USER_HOUR, partition_key="2026112010").success
    assert gateway.submitted[0].endswith("REFRESH PARTITION (logdate = '2026112010')")


def test_a_table_without_partitions_is_refreshed_whole(
    defs: dg.Definitions, gateway: FakeGateway, instance: dg.DagsterInstance
) -> None:
    gateway.results["ALTER"] = refreshed(table="dws.user_total", start="", end="")
    result = materialize(defs, instance, dg.AssetKey(["dws", "user_total"]))
    assert gateway.submitted == ["ALTER MATERIALIZED TABLE dws.user_total REFRESH"]
    [event] = result.asset_materializations_for_node("refresh_dws_user_total")
    assert event.metadata["dagster/row_count"].value == 7


def test_progress_is_in_the_runs_log(
    defs: dg.Definitions, gateway: FakeGateway, instance: dg.DagsterInstance
) -> None:
    gateway.polls = [{"message": "reading", "done": 1, "total": 3}] * 2 + [{"message": "committing"}]
    gateway.results["ALTER"] = refreshed(table="dws.user_total")
    result = materialize(defs, instance, dg.AssetKey(["dws", "user_total"]))
    messages = [e.user_message for e in instance.all_logs(result.run_id)]
    assert messages.count("reading (1/3)") == 1
    assert "committing" in messages


@pytest.mark.parametrize("interruption", [DagsterExecutionInterruptedError, KeyboardInterrupt])
def test_a_terminated_run_cancels_its_statement(
    defs: dg.Definitions,
    gateway: FakeGateway,
    instance: dg.DagsterInstance,
    interruption: type[BaseException],
) -> None:
    def interrupt() -> None:
        gateway.on_poll = lambda: None
        raise interruption

    gateway.on_poll = interrupt
    with pytest.raises((interruption, DagsterExecutionInterruptedError)):
        materialize(defs, instance, dg.AssetKey(["dws", "user_total"]))
    assert gateway.cancelled == ["ALTER MATERIALIZED TABLE dws.user_total REFRESH"]


def test_a_failed_statement_is_not_tried_again(
    defs: dg.Definitions, gateway: FakeGateway, instance: dg.DagsterInstance
) -> None:
    gateway.error = "layers/dws/user_total.sql:2:1: two rows share a key"
    result = materialize(defs, instance, dg.AssetKey(["dws", "user_total"]), raise_on_error=False)
    assert len(gateway.submitted) == 1
    failure = result.failure_data_for_node("refresh_dws_user_total")
    assert failure is not None and failure.user_failure_data is not None
    assert failure.user_failure_data.description == gateway.error


def test_an_unreachable_gateway_is_tried_again(
    defs: dg.Definitions,
    gateway: FakeGateway,
    instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headrace.orchestration.gateway.RETRY_SECONDS", 0)
    gateway.reachable = False
    result = materialize(defs, instance, dg.AssetKey(["dws", "user_total"]), raise_on_error=False)
    assert not result.success
    kinds = [e.event_type for e in result.all_events]
    assert kinds.count(dg.DagsterEventType.STEP_UP_FOR_RETRY) == 4
    messages = [e.user_message for e in instance.all_logs(result.run_id)]
    assert any("headrace up" in m for m in messages)


def check(
    defs: dg.Definitions, instance: dg.DagsterInstance, key: dg.AssetKey, *names: str, **arguments: Any
) -> dict[str, dg.AssetCheckEvaluation]:
    job = defs.resolve_implicit_global_asset_job_def()
    subset = job.get_subset(
        asset_selection=set(), asset_check_selection={dg.AssetCheckKey(key, n) for n in names}
    )
    result = subset.execute_in_process(instance=instance, raise_on_error=False, **arguments)
    return {e.check_name: e for e in result.get_asset_check_evaluations()}


def parity(**fields: Any) -> dict[str, Any]:
    result = {
        "table": "dws.user_hour",
        "against": "batch",
        "equal": True,
        "rows": 9,
        "missing": 0,
        "extra": 0,
    }
    return result | {"version": 3} | fields


def test_parity_shows_what_differs(
    defs: dg.Definitions, gateway: FakeGateway, instance: dg.DagsterInstance
) -> None:
    sample = [{"side": "expected", "row": {"user_id": 1, "name": None, "cnt": 2.5}}]
    gateway.results["VERIFY dws.user_hour"] = [
        parity(equal=False, missing=1, partitions=["2026112010"], sample=sample)
    ]
    evaluation = check(defs, instance, USER_HOUR, "parity")["parity"]
    assert not evaluation.passed and evaluation.severity is dg.AssetCheckSeverity.ERROR
    assert evaluation.metadata["missing"].value == 1
    [row] = evaluation.metadata["differing_rows"].records
    assert row.data == {"only in": "expected", "user_id": "1", "name": "NULL", "cnt": "2.5"}
    assert gateway.submitted == ["VERIFY dws.user_hour"]


def test_a_stg_table_is_proven_against_its_source(
    defs: dg.Definitions, gateway: FakeGateway, instance: dg.DagsterInstance
) -> None:
    gateway.results["VERIFY stg.users"] = [parity(against="source", position="0/1A2B")]
    evaluation = check(defs, instance, dg.AssetKey(["stg", "users"]), "source_parity")["source_parity"]
    assert evaluation.passed
    assert evaluation.metadata["position"].value == "0/1A2B"


def test_a_missing_result_is_a_failed_check(
    defs: dg.Definitions, gateway: FakeGateway, instance: dg.DagsterInstance
) -> None:
    gateway.results["VERIFY"] = []
    assert not check(defs, instance, USER_HOUR, "parity")["parity"].passed


def test_the_accounting_check_tells_what_does_not_add_up(
    defs: dg.Definitions, gateway: FakeGateway, instance: dg.DagsterInstance
) -> None:
    account = {"table": "dws.user_hour", "version": 8, "rows": 9, "commits": 8, "snapshot_version": 7}
    account |= {"totals": {"since": 0, "began": 0, "inserted": 9}, "snapshot_rows": 8, "balanced": False}
    gateway.results["SHOW ACCOUNTING"] = {**account, "problems": ["version 7 has 9 rows, its files 8"]}
    gateway.results["VERIFY"] = [parity()]
    evaluation = check(defs, instance, USER_HOUR, "accounting")["accounting"]
    assert not evaluation.passed and evaluation.description == "version 7 has 9 rows, its files 8"
    assert evaluation.metadata["total: inserted"].value == 9
    assert gateway.submitted == ["SHOW ACCOUNTING dws.user_hour"]
    gateway.results["SHOW ACCOUNTING"] = {**account, "balanced": True}
    found = check(defs, instance, USER_HOUR, "accounting", "parity")
    assert {name: e.passed for name, e in found.items()} == {"accounting": True, "parity": True}


def test_constraints_and_expectations_are_one_statement(
    defs: dg.Definitions, gateway: FakeGateway, instance: dg.DagsterInstance
) -> None:
    common = {"table": "dws.user_hour", "rows": 9}
    gateway.results["CHECK dws.user_hour"] = [
        {**common, "constraint": "counted", "on_violation": "FAIL", "passed": False, "violations": 2},
        {**common, "constraint": "plausible", "on_violation": "WARN", "passed": False, "violations": 1},
    ]
    found = check(defs, instance, USER_HOUR, "counted", "plausible")
    assert {n: (e.passed, e.severity.value) for n, e in found.items()} == {
        "counted": (False, "ERROR"),
        "plausible": (False, "WARN"),
    }
    assert gateway.submitted == ["CHECK dws.user_hour"]


def test_checks_in_a_materializing_run_are_for_its_range(
    defs: dg.Definitions, gateway: FakeGateway, instance: dg.DagsterInstance
) -> None:
    gateway.results["ALTER"] = refreshed()
    gateway.results["VERIFY"] = [parity()]
    common = {"table": "dws.user_hour", "rows": 9, "passed": True, "violations": 0}
    gateway.results["CHECK"] = [
        {**common, "constraint": "counted", "on_violation": "FAIL"},
        {**common, "constraint": "plausible", "on_violation": "WARN"},
    ]
    gateway.tables["SELECT"] = counts({})
    job = defs.resolve_implicit_global_asset_job_def()
    names = ("parity", "counted", "plausible")
    subset = job.get_subset(
        asset_selection={USER_HOUR}, asset_check_selection={dg.AssetCheckKey(USER_HOUR, n) for n in names}
    )
    assert subset.execute_in_process(instance=instance, tags=RANGE).success
    where = "PARTITION (logdate BETWEEN '2026112010' AND '2026112012')"
    assert {s for s in gateway.submitted if s.startswith(("VERIFY", "CHECK"))} == {
        f"VERIFY dws.user_hour {where}",
        f"CHECK dws.user_hour {where}",
    }


@pytest.mark.parametrize(("job", "verb"), [("suspend_streams", "SUSPEND"), ("resume_streams", "RESUME")])
def test_streams_are_stopped_and_started_by_a_job(
    defs: dg.Definitions, gateway: FakeGateway, instance: dg.DagsterInstance, job: str, verb: str
) -> None:
    op = job.removesuffix("_streams")
    config = {"ops": {op: {"config": {"tables": ["dws.user_hour", "stg.users"]}}}}
    assert defs.resolve_job_def(job).execute_in_process(run_config=config, instance=instance).success
    assert gateway.submitted == [
        f"ALTER MATERIALIZED TABLE {t} {verb}" for t in ("dws.user_hour", "stg.users")
    ]


def test_a_job_refuses_a_table_that_does_not_exist(defs: dg.Definitions, gateway: FakeGateway) -> None:
    config = {"ops": {"suspend": {"config": {"tables": ["dws.user_hours"]}}}}
    with pytest.raises(dg.DagsterInvalidConfigError, match="user_hours"):
        defs.resolve_job_def("suspend_streams").execute_in_process(run_config=config)
    assert not gateway.submitted
