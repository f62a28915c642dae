"""The catalogue of `tests/scenarios/cdc`: what databases do, through the real connector, equal to the source.

A file is what psql runs before there is a connector and, after `-- then`, while its tables are followed.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from running_shop import ROOT, Shop

from headrace.gateway.client import GatewayClient
from headrace.services.programs.postgres import postmaster
from headrace.services.scratch import scratch_settings
from headrace.services.stack import Stack
from headrace.settings import Settings
from headrace.spec import load_project

FILES = sorted((ROOT / "tests" / "scenarios" / "cdc").glob("*.sql"))


def parts(file: Path) -> tuple[str, str]:
    before, _, then = file.read_text().partition("\n-- then\n")
    assert before.startswith("-- ") and then, f"{file} says what it is about, and has two parts"
    return before, then


def tables() -> list[str]:
    return [t for file in FILES for t in re.findall(r"CREATE TABLE (cdc_\w+)", parts(file)[0])]


def psql(settings: Settings, text: str) -> None:
    """Statement by statement, as a person types them."""
    server = postmaster(settings)
    assert server is not None
    program = Path(server.exe()).with_name("psql")
    command = [program, "-q", "-X", "-v", "ON_ERROR_STOP=1", "-f", "-", settings.postgres_dsn()]
    subprocess.run(command, input=text, text=True, check=True)


@pytest.fixture
def followed(tmp_path: Path) -> Iterator[Shop]:
    """A stg table of each table of the catalogue."""
    connector = json.loads((ROOT / "deploy" / "connectors" / "shop.json").read_text())
    captured = [f"public.{table}" for table in (*tables(), "headrace_marker")]
    connector["config"]["table.include.list"] = ",".join(captured)
    files = {"deploy/connectors/shop.json": json.dumps(connector)}
    for table in tables():
        files[f"layers/stg/{table}.sql"] = (
            f"CREATE MATERIALIZED TABLE stg.{table} FRESHNESS = INTERVAL '5' SECOND\n"
            f"AS SELECT * FROM shop.public.{table}\n"
        )
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    with scratch_settings(tmp_path, driver_memory="1g", snapshot="connector") as settings:
        stack = Stack(settings)
        try:
            stack.up(only=["connect"])
            psql(settings, "CREATE TABLE headrace_marker (id text PRIMARY KEY, at timestamptz);")
            for file in FILES:
                psql(settings, parts(file)[0])
            with psycopg.connect(settings.postgres_dsn()) as source:
                for table in tables():
                    if table != "cdc_default":
                        source.execute(f"ALTER TABLE {table} REPLICA IDENTITY FULL")
            stack.up(only=["warehouse"])
            stack.register_connectors()
            with GatewayClient(settings) as client:
                shop = Shop(stack, client, load_project(tmp_path))
                shop.wait_running()
                yield shop
        finally:
            stack.down()


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_catalogue_is_followed(followed: Shop) -> None:
    assert len(FILES) >= 19
    followed.verify()  # what the snapshot has read
    for file in FILES:
        psql(followed.settings, parts(file)[1])
    followed.verify()
    letters = {t: s.dead_letters for t, s in followed.status().items() if s.dead_letters}
    assert not letters
    followed.check_changelogs()
