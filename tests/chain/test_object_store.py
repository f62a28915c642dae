"""The warehouse in an object store: same files, same rows; no dead server and no dead store loses one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from chain_support import eventually
from object_store import ObjectServer, object_server
from running_shop import Shop, check_changelog, own_shop

import log_race
from headrace.errors import TerminalError
from headrace.services.scratch import scratch_settings
from headrace.settings import Settings
from headrace.storage.object_path import ObjectPath
from headrace.storage.permit import Permit
from headrace.store.cloning import clone_table
from headrace.store.lease import lease_of

pytestmark = pytest.mark.long

TABLE = "dws.user_hour"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectServer]:
    folder = tmp_path_factory.mktemp("objects")
    with object_server(folder / "data", Settings(project=folder).home) as running:
        yield running


@pytest.fixture(scope="module")
def remote(store: ObjectServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    project = tmp_path_factory.mktemp("project")
    with own_shop(project, seed=29, **store.settings("shop")) as shop:
        yield shop


def check(shop: Shop) -> None:
    shop.check_against_postgres()
    shop.verify()
    shop.check_changelogs()


def test_stream_backfill_and_proof(remote: Shop) -> None:
    assert isinstance(remote.path(TABLE, "snapshot"), ObjectPath)
    assert not (remote.settings.data / "warehouse").exists()
    with remote.load(seed=91) as load:
        remote.wait_advanced(TABLE, by=5)
        remote.client.run(f"ALTER MATERIALIZED TABLE {TABLE} REFRESH ALL")
        load.raise_if_failed()
    check(remote)


def test_a_killed_server_loses_nothing(remote: Shop) -> None:
    with remote.load(seed=92) as load:
        remote.wait_advanced(TABLE, by=2)
        remote.kill()
        remote.wait_advanced(TABLE, by=2)
        load.raise_if_failed()
    check(remote)


def test_a_killed_store_loses_nothing(remote: Shop, store: ObjectServer) -> None:
    with remote.load(seed=93) as load:
        remote.wait_advanced(TABLE, by=2)
        store.kill()
        eventually("somebody notices", lambda: noticed(remote))
        store.start()
        remote.wait_answers()
        remote.wait_running()
        remote.wait_advanced(TABLE, by=2)
        load.raise_if_failed()
    check(remote)


def test_a_table_is_cloned_by_the_store(remote: Shop) -> None:
    place = remote.settings.warehouse.with_name("clone")
    with remote.load(seed=94):
        remote.wait_advanced(TABLE, by=2)
        shared = clone_table(remote.path(TABLE, "changelog").parent, place)
        remote.wait_advanced(TABLE)
    assert shared.copied > 0 and shared.linked == 0
    check_changelog(place / "changelog", remote.primary_key(TABLE))


def noticed(shop: Shop) -> bool:
    """A table says that it cannot commit."""
    try:
        found = {table: status.last_error for table, status in shop.status().items() if status.last_error}
    except Exception:
        return True
    return bool(found)


RACE = """
import sys
from pathlib import Path

from log_race import winners

from headrace.engine.spark.session import build_session
from headrace.settings import Settings
from headrace.storage.location import spark_path

settings = Settings.load(Path(sys.argv[1]))
settings.state.mkdir(parents=True)
spark = build_session(settings)
won = winners(spark, "s3a", spark_path(settings.warehouse / "race"))
assert won == [1] * 30, won
print("one each")
spark.stop()
"""


def test_of_several_commits_of_spark_to_one_version_one_is_made(store: ObjectServer, tmp_path: Path) -> None:
    with scratch_settings(tmp_path, driver_memory="1g", **store.settings("races")) as settings:
        command = [sys.executable, "-c", RACE, str(tmp_path)]
        beside = {"PYTHONPATH": str(Path(log_race.__file__).parent)}
        environment = os.environ | settings.variables() | beside
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert "one each" in done.stdout, done.stdout + done.stderr


def test_a_second_server_is_refused(remote: Shop) -> None:
    with pytest.raises(TerminalError, match=f"process {remote.pid} of .*headrace down"):
        lease_of(remote.settings.warehouse, Permit()).acquire()
