"""An environment: the running shop's tables, cloned under load, go on from there by files of their own."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from running_servers import served
from running_shop import Shop, copy_project, run_headrace

from headrace.environments.settings_file import as_toml
from headrace.gateway.client import StatementFailed
from headrace.settings import SETTINGS_FILE, Settings
from headrace.sources.connect import ConnectClient
from headrace.store.record.commits import history

pytestmark = pytest.mark.long

WATCHED = "dws.user_hour"
NAME = "dev"


@dataclass
class Pair:
    """
    Args:
        at: the production's versions before its tables were cloned.
        told: what the command said.
    """

    production: Shop
    environment: Shop
    at: dict[str, int]
    told: dict[str, Any]

    @property
    def file(self) -> Path:
        """That of the watched table, in the environment."""
        return self.environment.settings.project / "layers" / f"{WATCHED.replace('.', '/')}.sql"


def clone(shop: Shop, project: Path, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """`headrace clone`, by somebody whose environment has no settings."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
    return run_headrace(
        "clone", str(shop.settings.project), *arguments, at=project, env=environment, code=code
    )


@pytest.fixture(scope="module")
def in_its_file(running_shop: Shop) -> Iterator[None]:
    """The session's stack has its settings from variables, a production in its file."""
    settings, left = running_shop.settings, ("project", "environment")
    values = {n: getattr(settings, n) for n in Settings.model_fields if n not in left}
    file = settings.project / SETTINGS_FILE
    file.write_text(as_toml(values))
    yield
    file.unlink()


@pytest.fixture(scope="module")
def pair(running_shop: Shop, in_its_file: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    project = tmp_path_factory.mktemp("environment")
    copy_project(project)
    (project / SETTINGS_FILE).write_text('driver_memory = "1g"\n')
    running_shop.wait_caught_up()
    with ExitStack() as stack:
        with running_shop.load(seed=41) as load:
            running_shop.wait_advanced(WATCHED, "stg.orders", by=2)
            at = {table: status.version for table, status in running_shop.status().items()}
            told = json.loads(clone(running_shop, project, "--name", NAME, "--json").stdout)
            environment = served(Settings.load(project), stack)
            running_shop.wait_advanced(WATCHED)
            load.raise_if_failed()
        yield Pair(running_shop, environment, at, told)


def test_all_is_there_and_follows_without_being_read_again(pair: Pair) -> None:
    assert pair.told["tables"] == len(pair.at) and pair.told["linked"] > 0 and pair.told["copied"] == 0
    shop = pair.environment
    shop.wait_running()
    shop.check_against_postgres()
    shop.verify()
    shop.check_changelogs()
    for table, version in pair.at.items():
        commits = [c for _, c in history(shop.path(table, "changelog")) if c.mode == "stream"]
        before = {c.version: c.run_id for c in commits if c.version <= version}
        same = {c.version: c.run_id for _, c in history(pair.production.path(table, "changelog"))}
        assert before.items() <= same.items(), table
        assert min(c.version for c in commits) <= version, f"{table} begins anew"


def test_what_is_edited_there_is_not_the_production_s(pair: Pair) -> None:
    shop, production = pair.environment, pair.production
    before = production.client.query(f"SELECT count(*) AS n FROM {WATCHED} WHERE user_id < 10")
    text = pair.file.read_text()
    pair.file.write_text(text.replace("WHERE logdate >=", "WHERE user_id < 10 AND logdate >="))
    shop.client.run("APPLY")
    rows = shop.client.query(f"SELECT max(user_id) AS most, count(*) AS n FROM {WATCHED}").to_pylist()
    assert rows[0]["most"] < 10 and rows[0]["n"] == before.to_pylist()[0]["n"]
    shop.verify(WATCHED)
    [waits] = [s for s in production.client.status() if s.table == WATCHED]
    assert waits.state == "RUNNING" and not [w for w in waits.warnings if "edited" in w]
    most = production.client.query(f"SELECT max(user_id) AS most FROM {WATCHED}").to_pylist()
    assert most[0]["most"] >= 10


def test_the_production_goes_on_as_if_there_were_none(pair: Pair) -> None:
    shop, production = pair.environment, pair.production
    with ConnectClient(production.settings.connect_rest) as client:
        before = {name: client.config(name) for name in client.names()}
        assert shop.stack.register_connectors() == []
        assert {name: client.config(name) for name in client.names()} == before
    with production.load(seed=42):
        production.wait_advanced(WATCHED, "stg.orders", by=2)
        shop.wait_advanced("stg.orders")
    production.check_against_postgres()
    production.verify()
    server = next(c.run_id for _, c in history(shop.path("stg.orders", "changelog")) if c.mode == "stream")
    for table in pair.at:
        writers = {c.run_id for _, c in history(production.path(table, "changelog"))}
        assert server not in writers, f"the environment's server has written {table} of the production"


def test_what_is_not_an_environment_s_is_refused(pair: Pair) -> None:
    shop = pair.environment
    with pytest.raises(StatementFailed, match=f"`{NAME}` does not erase what Kafka holds"):
        shop.client.run("ALTER MATERIALIZED TABLE stg.orders ERASE KEY (1)")
    there = clone(pair.production, shop.settings.project, code=1).stderr
    assert f"has the environment `{NAME}`. Next: `headrace down`, then" in there
    runs = clone(pair.production, shop.settings.project, "--replace", code=1).stderr
    assert "runs. Next: `headrace down` there" in runs
    own = clone(shop, pair.production.settings.project, code=1).stderr
    assert "is no environment: nothing takes their place" in own


def test_it_is_cloned_anew(pair: Pair) -> None:
    """Its edited file waits to be applied again."""
    shop = pair.environment
    shop.stack.down()
    clone(pair.production, shop.settings.project, "--replace", "--name", NAME)
    shop.stack.up(only=["warehouse"])
    shop.wait_running()
    most = shop.client.query(f"SELECT max(user_id) AS most FROM {WATCHED}").to_pylist()
    assert most[0]["most"] >= 10
    [waits] = [s for s in shop.client.status() if s.table == WATCHED]
    assert [w for w in waits.warnings if "its file was edited" in w]
