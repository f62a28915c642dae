"""The warehouse on Spark standalone with two workers: same files, same rows, executors that die."""

from __future__ import annotations

from collections.abc import Iterator

import psutil
import pytest
from chain_support import eventually
from running_shop import Shop, own_shop
from standalone import Cluster, cluster

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def clustered(workers: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with own_shop(tmp_path_factory.mktemp("project"), seed=23, spark_master=workers.url) as shop:
        yield shop


def executors(workers: Cluster) -> list[psutil.Process]:
    return [child for worker in workers.workers for child in psutil.Process(worker.pid).children()]


def test_stream_backfill_and_proof_on_executors(clustered: Shop, workers: Cluster) -> None:
    [application] = workers.state()["activeapps"]
    assert application["cores"] == 2 and len(executors(workers)) == 2
    with clustered.load(seed=81) as load:
        clustered.wait_advanced("dws.user_hour", by=5)
        clustered.client.run("ALTER MATERIALIZED TABLE dws.user_hour REFRESH ALL")
        load.raise_if_failed()
    clustered.check_against_postgres()
    clustered.verify()


def test_executors_that_die_lose_nothing(clustered: Shop, workers: Cluster) -> None:
    with clustered.load(seed=82) as load:
        for _ in range(2):
            before = executors(workers)
            for executor in before:
                executor.kill()
            clustered.wait_advanced("dws.user_hour", "dws.gmv_hour", by=2)
            eventually("others are there", lambda gone=before: len(set(executors(workers)) - set(gone)) == 2)
        load.raise_if_failed()
    clustered.check_against_postgres()
    clustered.verify()
    clustered.check_changelogs()
