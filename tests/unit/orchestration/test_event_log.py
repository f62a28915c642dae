"""Dagster's events: where Dagster looks for them, through connections that stay open."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest
import sqlalchemy
import yaml
from dagster._core.storage.event_log import SqliteEventLogStorage

from headrace.orchestration import event_log
from headrace.services.programs import dagster
from headrace.settings import Settings

ASSET = dg.AssetKey(["dws", "hours"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An instance's folder, as the stack makes it."""
    dagster.prepare(Settings(project=tmp_path), "dagster-daemon")
    return dagster.home(Settings(project=tmp_path))


def test_events_are_where_dagster_itself_would_find_them(folder: Path) -> None:
    with dg.DagsterInstance.from_config(str(folder)) as instance:
        assert isinstance(instance.event_log_storage, event_log.EventLog)
        instance.report_runless_asset_event(dg.AssetObservation(ASSET, metadata={"lag": 3}))
        instance.report_runless_asset_event(dg.AssetCheckEvaluation(ASSET, "runs", passed=True))
        [seen] = instance.fetch_observations(ASSET, limit=9).records
        assert seen.asset_observation is not None and seen.asset_observation.metadata["lag"].value == 3
    content = yaml.safe_load((folder / "dagster.yaml").read_text())
    del content["event_log_storage"]
    (folder / "dagster.yaml").write_text(yaml.safe_dump(content))
    with dg.DagsterInstance.from_config(str(folder)) as plain:
        assert type(plain.event_log_storage) is SqliteEventLogStorage
        assert plain.fetch_observations(ASSET, limit=9).records == [seen]


def test_a_run_has_its_events(folder: Path) -> None:
    @dg.asset(key=ASSET)
    def hours() -> None: ...

    with dg.DagsterInstance.from_config(str(folder)) as instance:
        done = dg.materialize([hours], instance=instance)
        assert done.success and instance.all_logs(done.run_id)
        [made] = instance.fetch_materializations(ASSET, limit=9).records
        assert made.run_id == done.run_id


def test_an_event_opens_no_file_anew(folder: Path) -> None:
    with dg.DagsterInstance.from_config(str(folder)) as instance:
        opened = 0

        def connected(*_: object) -> None:
            nonlocal opened
            opened += 1

        instance.report_runless_asset_event(dg.AssetObservation(ASSET))
        sqlalchemy.event.listen(sqlalchemy.pool.Pool, "connect", connected)
        try:
            for _ in range(5):
                instance.report_runless_asset_event(dg.AssetObservation(ASSET))
        finally:
            sqlalchemy.event.remove(sqlalchemy.pool.Pool, "connect", connected)
        assert opened == 0
