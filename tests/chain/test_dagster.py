"""Dagster against the running stack, whose server leaves the refreshes of what does not stream to it."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import psutil
import psycopg
import pytest
from browser import Pages, pages
from chain_support import eventually
from deltalake import DeltaTable
from running_shop import Shop

from headrace.orchestration.workflows import JOB, TURN_TAG
from headrace.report.gather import gather
from headrace.report.write import write_report
from headrace.results import WorkflowStatus
from headrace.services.stack import Stack
from headrace.services.status import ServiceName
from headrace.sources.connect import ConnectClient

pytestmark = pytest.mark.long

WITH_SUITE = "dws.user_hour"
DUE = "dws.due_meanwhile"
HOURS, REPORT = "dws.gmv_hour", "dws.gmv_day"
PROCESSES: tuple[ServiceName, ...] = ("dagster-code", "dagster-webserver", "dagster-daemon")

LAUNCH = """mutation ($run: ExecutionParams!) { launchPipelineExecution(executionParams: $run) {
  __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }"""
RUN = "query ($id: ID!) { runOrError(runId: $id) { ... on Run { status } } }"
RUNS_OF = """query ($job: String!) { runsOrError(filter: {pipelineName: $job}) { ... on Runs {
  results { status tags { key value } } } } }"""
MATERIALIZED = """query ($key: AssetKeyInput!) { assetOrError(assetKey: $key) { ... on Asset {
  assetMaterializations { partition metadataEntries { label ... on TextMetadataEntry { text } } } } } }"""

METADATA = """query ($key: AssetKeyInput!) { assetNodes(assetKeys: [$key]) { metadataEntries {
  label ... on PathMetadataEntry { path } } } }"""
DRY_RUN = """mutation ($sensor: SensorSelector!, $cursor: String) {
  sensorDryRun(selectorData: $sensor, cursor: $cursor) { ... on DryRunInstigationTick { evaluationResult {
    cursor error { message } runRequests { runConfigYaml tags { key value } } } } } }"""
PARTITIONS = "query ($key: AssetKeyInput!) { assetNodes(assetKeys: [$key]) { partitionKeys } }"
RELOAD = """mutation { reloadRepositoryLocation(repositoryLocationName: "headrace") { __typename } }"""
CHECKS = """query ($key: AssetKeyInput!) { assetNodes(assetKeys: [$key]) { assetChecksOrError {
  ... on AssetChecks { checks { name executionForLatestMaterialization {
    status evaluation { success severity description } } } } } } }"""


@pytest.fixture(scope="module")
def left_to_dagster(running_shop: Shop) -> Iterator[None]:
    """The warehouse server begins no refresh by itself. What does not stream has had its first rows."""
    running_shop.wait_caught_up()
    with running_shop.served({"HEADRACE_SCHEDULER": "dagster"}):
        yield


@pytest.fixture(scope="module")
def dagster(running_shop: Shop, left_to_dagster: None) -> Iterator[str]:
    """The address of the running Dagster's GraphQL."""
    running_shop.wait_caught_up()
    settings = running_shop.settings.model_copy(update={"scheduler": "dagster"})
    try:
        Stack(settings).up(only=PROCESSES)
        yield f"{settings.dagster_url}/graphql"
    finally:
        for name in reversed(PROCESSES):
            running_shop.stack.supervisor.stop(name)


def ask(url: str, query: str, **variables: Any) -> Any:
    answer = httpx.post(url, json={"query": query, "variables": variables}, timeout=60).json()
    assert "errors" not in answer, answer
    return answer["data"]


def materializations(url: str, table: str) -> list[dict[str, Any]]:
    """Newest first."""
    found = ask(url, MATERIALIZED, key={"path": table.split(".")})["assetOrError"]
    return found.get("assetMaterializations", []) if found else []


def workflow(shop: Shop, table: str = REPORT) -> WorkflowStatus:
    [found] = [w for w in shop.client.workflows() if w.table == table]
    return found


def test_the_server_leaves_a_refresh_that_is_due(shop: Shop, left_to_dagster: None) -> None:
    """A server that has just started, with changes that the table lacks."""
    before = shop.status()[REPORT].version
    with shop.load(seed=51) as load:
        shop.wait_advanced("stg.orders", "dwd.orders", by=3)
        load.raise_if_failed()
    found = workflow(shop)
    assert (found.state, found.scheduler, found.took) == ("DUE", "dagster", None)
    assert shop.status()[REPORT].version == before


def test_a_refresh_that_is_due_is_a_run_of_dagster(shop: Shop, dagster: str) -> None:
    assert eventually("its turn is done", lambda: workflow(shop).state == "WAITING")
    assert workflow(shop).took is not None

    def ended() -> list[dict[str, str]]:
        runs = ask(dagster, RUNS_OF, job=JOB)["runsOrError"]["results"]
        assert {run["status"] for run in runs} == {"SUCCESS"}, runs
        return [{tag["key"]: tag["value"] for tag in run["tags"]} for run in runs]

    [tags] = eventually("the run ends", ended)
    assert tags["headrace/table"] == REPORT and tags[TURN_TAG] != workflow(shop).turn
    texts = [
        {e["label"]: e.get("text") for e in m["metadataEntries"]} for m in materializations(dagster, REPORT)
    ]
    assert [t["range"] for t in texts if "range" in t] == ["what is new"]
    shop.verify(REPORT)
    [counted] = shop.client.query(
        f"SELECT (SELECT sum(orders) FROM {REPORT}) AS reported, (SELECT count(*) FROM dwd.orders) AS held"
    ).to_pylist()
    assert counted["reported"] == counted["held"] > 0


def launch(url: str, label: str) -> str:
    """Materialize one partition of the hours. Returns the run's id."""
    run = {
        "selector": {
            "repositoryLocationName": "headrace",
            "repositoryName": "__repository__",
            "pipelineName": "__ASSET_JOB",
            "assetSelection": [{"path": HOURS.split(".")}],
        },
        "mode": "default",
        "executionMetadata": {"tags": [{"key": "dagster/partition", "value": label}]},
    }
    launched = ask(url, LAUNCH, run=run)["launchPipelineExecution"]
    assert launched["__typename"] == "LaunchRunSuccess", launched
    started: str = launched["run"]["runId"]
    return started


def ended(url: str, run: str) -> str:
    """Wait until the run has ended, and say how."""

    def status() -> str:
        found: str = ask(url, RUN, id=run)["runOrError"]["status"]
        assert found in ("SUCCESS", "FAILURE", "CANCELED"), found
        return found

    return eventually("the run ends", status) or ""


def assets(url: str) -> set[str]:
    nodes = ask(url, "{ assetNodes { assetKey { path } isExecutable } }")["assetNodes"]
    return {".".join(n["assetKey"]["path"]) for n in nodes if n["isExecutable"]}


def newest(shop: Shop) -> str:
    [found] = shop.client.query(f"SELECT max(logdate) AS label FROM {HOURS}").to_pylist()
    return str(found["label"])


def test_every_table_is_an_asset_and_one_of_its_partitions_is_materialized(shop: Shop, dagster: str) -> None:
    shop.wait_caught_up()
    assert eventually("the code location", lambda: assets(dagster)) >= {str(n) for n in shop.project.tables}
    label = newest(shop)
    assert ended(dagster, launch(dagster, label)) == "SUCCESS"
    [materialized] = [m for m in materializations(dagster, HOURS) if m["partition"] == label]
    assert {e["label"] for e in materialized["metadataEntries"]} >= {"rows_in_range", "version"}


def partitions(url: str) -> list[str]:
    """Keys of the hours' partitions."""
    [node] = ask(url, PARTITIONS, key={"path": HOURS.split(".")})["assetNodes"]
    found: list[str] = node["partitionKeys"]
    return found


def test_partitions_begin_where_the_data_begins_also_once_older_data_has_come(
    shop: Shop, dagster: str
) -> None:
    shop.wait_caught_up()
    labels = "SELECT min(logdate) AS first FROM stg.orders"
    [begins] = shop.client.query(labels).to_pylist()
    eventually("the code location", lambda: assets(dagster))
    assert partitions(dagster)[0] == begins["first"]
    year = "UPDATE orders SET created_at = created_at {} interval '1 year' WHERE order_id = 1"
    with psycopg.connect(shop.dsn, autocommit=True) as source:
        source.execute(year.format("-").encode())
        try:

            def older() -> str | None:
                [row] = shop.client.query(labels).to_pylist()
                return str(row["first"]) if row["first"] < begins["first"] else None

            old = eventually("the older data", older)
            snapshot = str(shop.path("stg.orders", "snapshot"))
            eventually("its file", lambda: {"logdate": old} in DeltaTable(snapshot).partitions())
            ask(dagster, RELOAD)
            eventually("its partition", lambda: partitions(dagster)[0] == old)
            assert ended(dagster, launch(dagster, old)) == "SUCCESS"
            assert old in {m["partition"] for m in materializations(dagster, HOURS)}
        finally:
            source.execute(year.format("+").encode())
    shop.wait_caught_up()


def checks(url: str, table: str) -> dict[str, str | None]:
    """What the page of an asset shows of its checks: PASSED, or how severe; None where not evaluated."""
    [node] = ask(url, CHECKS, key={"path": table.split(".")})["assetNodes"]
    found = {}
    for check in node["assetChecksOrError"]["checks"]:
        shown = (check["executionForLatestMaterialization"] or {}).get("evaluation")
        found[check["name"]] = None if shown is None else "PASSED" if shown["success"] else shown["severity"]
    return found


def wait_passed(url: str, table: str, *names: str) -> None:
    def passed() -> bool:
        shown = checks(url, table)
        assert {shown.get(name) for name in names} == {"PASSED"}, shown
        return True

    eventually(f"the checks of {table}", passed)


def test_what_anybody_has_found_is_shown(shop: Shop, dagster: str) -> None:
    """Comparisons through the server, and tables that rest."""
    shop.wait_caught_up()
    shop.verify(HOURS, "stg.users")
    shop.client.run(f"SHOW ACCOUNTING {HOURS}")
    shop.client.run("ALTER MATERIALIZED TABLE dws.top_products SUSPEND")
    try:
        wait_passed(dagster, HOURS, "parity", "accounting", "runs", "freshness")
        wait_passed(dagster, "stg.users", "parity", "source_parity", "runs", "dead_letters")
        eventually("one that rests", lambda: checks(dagster, "dws.top_products")["runs"] == "WARN")
    finally:
        shop.client.run("ALTER MATERIALIZED TABLE dws.top_products RESUME")
    eventually("it goes on", lambda: checks(dagster, "dws.top_products")["runs"] == "PASSED")


def test_the_report_and_data_docs_are_where_assets_point_to(shop: Shop, dagster: str) -> None:
    [node] = ask(dagster, METADATA, key={"path": WITH_SUITE.split(".")})["assetNodes"]
    paths = {e["label"]: Path(e["path"]) for e in node["metadataEntries"] if "path" in e}
    shop.client.run(f"CHECK {WITH_SUITE}")
    gathered = gather(shop.client, "shop", datetime.now(UTC))
    index = write_report(shop.settings, gathered).data_docs
    assert index is not None and WITH_SUITE in index.read_text()
    assert WITH_SUITE in paths["report"].read_text()
    assert "Expectation" in paths["data_docs"].read_text()
    assert list((index.parent / "validations" / "dws" / "user_hour").rglob("*.html"))


def test_a_table_made_by_a_statement_is_an_asset_once_the_definitions_are_reloaded(
    shop: Shop, dagster: str
) -> None:
    made = "dws.made_meanwhile"
    shop.client.run(
        f"CREATE MATERIALIZED TABLE {made} (PRIMARY KEY (logdate)) FRESHNESS = INTERVAL '10' SECOND "
        f"AS SELECT logdate, orders FROM {HOURS}"
    )
    try:
        ask(dagster, RELOAD)
        eventually("the new asset", lambda: made in assets(dagster))
        wait_passed(dagster, made, "runs")
        assert checks(dagster, made)["parity"] is None  # nobody has asked
    finally:
        shop.client.run(f"DROP MATERIALIZED TABLE {made}")
    ask(dagster, RELOAD)
    eventually("it is gone", lambda: made not in assets(dagster))


def test_alerts_of_a_layer_are_runs_that_fail(shop: Shop, dagster: str) -> None:
    """Another column than the last look has seen; the sensor is off, and evaluated once."""
    eventually("the code location", lambda: assets(dagster))
    place = {"repositoryLocationName": "headrace", "repositoryName": "__repository__"}
    known = {HOURS: {"columns": {"gone": "int"}}}
    tick = ask(dagster, DRY_RUN, sensor={**place, "sensorName": "alerts_dws"}, cursor=json.dumps(known))
    found = tick["sensorDryRun"]["evaluationResult"]
    assert found["error"] is None and HOURS in found["cursor"] and "top_products" in found["cursor"]
    [request] = [
        r for r in found["runRequests"] if {"key": "headrace/alert", "value": "columns"} in r["tags"]
    ]
    run = {
        "selector": {**place, "pipelineName": "alert"},
        "mode": "default",
        "runConfigData": request["runConfigYaml"],
    }
    started = ask(dagster, LAUNCH, run=run)["launchPipelineExecution"]
    assert ended(dagster, started["run"]["runId"]) == "FAILURE"


@pytest.fixture
def browsed(dagster: str, tmp_path: Path) -> Iterator[Pages]:
    """Dagster's pages; pytest keeps the folder with what was seen."""
    with pages(dagster.removesuffix("/graphql"), tmp_path) as found:
        yield found


def test_by_clicks_a_range_is_backfilled_and_streams_rest(shop: Shop, browsed: Pages) -> None:
    shop.wait_caught_up()
    browsed.open("/asset-groups")
    for group in ("source", "stg", "dwd", "dws"):
        browsed.sees(group)
    browsed.sees("Materialize all (14)…")
    browsed.shot("graph")
    hours = [row["h"] for row in shop.client.query(f"SELECT DISTINCT logdate AS h FROM {HOURS}").to_pylist()]
    first, last = sorted(hours)[-4], sorted(hours)[-2]
    browsed.materialize(HOURS, f"[{first}...{last}]", "3 partitions")
    browsed.ends_green("3 partitions")
    browsed.shot("backfilled")
    shop.verify(HOURS)

    browsed.run("suspend_streams", "ops: {suspend: {config: {tables: [dws.top_products]}}}")
    assert shop.status()["dws.top_products"].state == "SUSPENDED"
    browsed.run("resume_streams", "ops: {resume: {config: {tables: [dws.top_products]}}}")
    browsed.shot("resumed")
    eventually("it goes on", lambda: shop.status()["dws.top_products"].state == "RUNNING")


def test_by_clicks_a_difference_is_red_and_its_repair_green(shop: Shop, dagster: str, browsed: Pages) -> None:
    """In a table of its own: what its corrections take away is what another program wrote."""
    made = "dws.damaged"
    shop.client.run(
        f"CREATE MATERIALIZED TABLE {made} (PRIMARY KEY (logdate)) FRESHNESS = INTERVAL '10' SECOND "
        f"AS SELECT logdate, orders FROM {HOURS}"
    )
    try:
        shop.client.run(f"ALTER MATERIALIZED TABLE {made} REFRESH")  # its snapshot has its rows
        ask(dagster, RELOAD)
        eventually("the new asset", lambda: made in assets(dagster))
        planted = DeltaTable(str(shop.path(made, "snapshot")))
        done = planted.update(predicate=f"logdate = '{newest(shop)}'", updates={"orders": "77777"})
        assert done["num_updated_rows"] == 1
        browsed.open_check(made, "parity")
        browsed.page.get_by_text("Execute", exact=True).click()
        browsed.sees("Failed")
        browsed.sees("77777")
        browsed.shot("difference")
        shop.client.run(f"VERIFY {made} REPAIR")
        browsed.sees("Passed")
        browsed.shot("repaired")
        shop.verify(made)
    finally:
        shop.client.run(f"DROP MATERIALIZED TABLE {made}")
        ask(dagster, RELOAD)
        eventually("it is gone", lambda: made not in assets(dagster))


def test_by_clicks_a_run_is_cancelled_and_leaves_nothing(shop: Shop, dagster: str, browsed: Pages) -> None:
    """It waits for comparisons, of which two at a time wait ten seconds for a connector that is stopped."""
    shop.wait_caught_up()
    version = shop.status()[HOURS].version
    with ConnectClient(shop.settings.connect_rest) as connect:
        connect.stop("shop")
        waiting = [shop.client.submit("VERIFY stg.users") for _ in range(12)]
        try:
            run = launch(dagster, newest(shop))
            eventually("its statement", lambda: refreshes(shop) == ["QUEUED"])
            browsed.terminate(run)
            browsed.shot("cancelled")
            eventually("its statement is cancelled", lambda: refreshes(shop) == ["CANCELLED"])
        finally:
            for statement in waiting:
                shop.client.cancel(statement.id)
            shop.stack.register_connectors()
    assert shop.status()[HOURS].version == version
    shop.verify(HOURS, "stg.users")


def refreshes(shop: Shop) -> list[str]:
    """States of the newest statement that refreshes a part of the hours."""
    found = [s.state for s in shop.client.statements() if f"TABLE {HOURS} REFRESH" in s.text]
    return found[-1:]


def test_what_is_killed_comes_back_and_a_run_that_died_is_told(shop: Shop, dagster: str) -> None:
    """What came due meanwhile is refreshed by those who come back: they alone know the table."""
    supervisor, label = shop.stack.supervisor, newest(shop)
    shop.client.run(
        f"CREATE MATERIALIZED TABLE {DUE} (PRIMARY KEY (logdate)) FRESHNESS = INTERVAL '1' MINUTE "
        f"REFRESH_MODE = FULL AS SELECT logdate, orders FROM {HOURS}"
    )
    for name in PROCESSES:
        pid = supervisor.process(name).pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        eventually(f"another {name}", lambda n=name, p=pid: supervisor.process(n).pid not in (None, p))
    eventually("the code location", lambda: assets(dagster))
    eventually(f"{DUE} is refreshed", lambda: workflow(shop, DUE).took is not None)
    server = psutil.Process(supervisor.process("dagster-code").pid)
    others = set(server.children(recursive=True))
    run = launch(dagster, label)
    for worker in eventually("its worker", lambda: set(server.children(recursive=True)) - others) or ():
        worker.kill()
    assert ended(dagster, run) == "FAILURE"
    assert ended(dagster, launch(dagster, label)) == "SUCCESS"
    shop.verify(HOURS, DUE)
    supervisor.stop("dagster-daemon")
    stack = Stack(shop.settings.model_copy(update={"scheduler": "dagster"}))
    [daemon] = [found for found in stack.status() if found.name == "dagster-daemon"]
    assert daemon.state == "STOPPED" and "nothing refreshes" in daemon.detail
    supervisor.launch("dagster-daemon")
