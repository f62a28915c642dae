"""Dagster against the running stack, whose server leaves the refreshes of what does not stream to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from chain_support import eventually
from running_shop import Shop

from headrace.orchestration.workflows import JOB, TURN_TAG
from headrace.results import WorkflowStatus
from headrace.services.stack import Stack
from headrace.services.status import ServiceName

pytestmark = pytest.mark.long

HOURS, REPORT = "dws.gmv_hour", "dws.gmv_day"
PROCESSES: tuple[ServiceName, ...] = ("dagster-code", "dagster-webserver", "dagster-daemon")

LAUNCH = """mutation ($run: ExecutionParams!) { launchPipelineExecution(executionParams: $run) {
  __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }"""
RUN = "query ($id: ID!) { runOrError(runId: $id) { ... on Run { status } } }"
RUNS_OF = """query ($job: String!) { runsOrError(filter: {pipelineName: $job}) { ... on Runs {
  results { status tags { key value } } } } }"""
MATERIALIZED = """query ($key: AssetKeyInput!) { assetOrError(assetKey: $key) { ... on Asset {
  assetMaterializations { partition metadataEntries { label ... on TextMetadataEntry { text } } } } } }"""


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


def workflow(shop: Shop) -> WorkflowStatus:
    [found] = [w for w in shop.client.workflows() if w.table == REPORT]
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


def test_every_table_is_an_asset_and_one_of_its_partitions_is_materialized(shop: Shop, dagster: str) -> None:
    shop.wait_caught_up()

    def assets() -> set[str]:
        nodes = ask(dagster, "{ assetNodes { assetKey { path } isExecutable } }")["assetNodes"]
        return {".".join(n["assetKey"]["path"]) for n in nodes if n["isExecutable"]}

    assert eventually("the code location", assets) >= {str(name) for name in shop.project.tables}
    [newest] = shop.client.query(f"SELECT max(logdate) AS label, count(*) AS n FROM {HOURS}").to_pylist()
    run = {
        "selector": {
            "repositoryLocationName": "headrace",
            "repositoryName": "__repository__",
            "pipelineName": "__ASSET_JOB",
            "assetSelection": [{"path": HOURS.split(".")}],
        },
        "mode": "default",
        "executionMetadata": {"tags": [{"key": "dagster/partition", "value": newest["label"]}]},
    }
    launched = ask(dagster, LAUNCH, run=run)["launchPipelineExecution"]
    assert launched["__typename"] == "LaunchRunSuccess", launched

    def status() -> str:
        found: str = ask(dagster, RUN, id=launched["run"]["runId"])["runOrError"]["status"]
        assert found in ("SUCCESS", "FAILURE", "CANCELED"), found
        return found

    assert eventually("the run ends", status) == "SUCCESS"
    [materialized] = [m for m in materializations(dagster, HOURS) if m["partition"] == newest["label"]]
    assert {e["label"] for e in materialized["metadataEntries"]} >= {"rows_in_range", "version"}
