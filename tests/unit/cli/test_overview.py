"""What a running server tells of its project is what a command finds out where none does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from cli_support import Cli
from gateway_support import Gateway, free_port, serve

from headrace.gateway.overview import DIGEST
from headrace.results import Explanation, PlannedProject
from headrace.server import ProjectOverview
from headrace.services.status import ServiceStatus
from headrace.settings import Settings

THRESHOLD = "HEADRACE_CONTINUOUS_THRESHOLD_SECONDS"


class Counting(ProjectOverview):
    """Counts what it was asked."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.asked: list[str] = []

    def services(self) -> list[ServiceStatus]:
        self.asked.append("services")
        return super().services()

    def plan(self) -> PlannedProject:
        self.asked.append("plan")
        return super().plan()

    def explain(self, table: str, *, history: bool) -> Explanation:
        self.asked.append(f"{table} {history}")
        return super().explain(table, history=history)


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Gateway, list[str]]]:
    """A server that tells of its project, and what it was asked."""
    made: list[Counting] = []

    def overview(settings: Settings) -> Counting:
        made.append(Counting(settings))
        return made[0]

    monkeypatch.setenv("HEADRACE_POSTGRES_PORT", str(free_port()))
    with serve(tmp_path, overview=overview) as gateway:
        monkeypatch.setenv("HEADRACE_GATEWAY_PORT", str(gateway.settings.gateway_port))
        yield gateway, made[0].asked


def said(cli: Cli, *command: str) -> Any:
    return json.loads(cli(*command, "--json"))


def test_commands_ask_the_server_and_tell_the_same(
    asked: tuple[Gateway, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway, questions = asked
    cli = Cli(gateway.settings.project)
    plan, explained = said(cli, "plan"), said(cli, "explain", "stg.orders", "--history")
    status = json.loads(cli("status", "--json", code=1))
    assert questions == ["plan", "stg.orders True", "services"]
    assert len(plan["tables"]) == 2 and explained["history"] and status["services"][0]["state"] == "STOPPED"
    # Other settings than the server's: everything is found out here.
    monkeypatch.setenv("HEADRACE_DAGSTER_PORT", str(free_port()))
    assert said(cli, "plan") == plan and said(cli, "explain", "stg.orders", "--history") == explained
    assert [s["state"] for s in json.loads(cli("status", "--json", code=1))["services"]] == [
        s["state"] for s in status["services"]
    ]
    assert len(questions) == 3


def test_settings_that_the_server_does_not_have_count(
    asked: tuple[Gateway, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    cli = Cli(asked[0].settings.project)
    assert {t["mode"] for t in said(cli, "plan")["tables"]} == {"CONTINUOUS"}
    monkeypatch.setenv(THRESHOLD, "1")
    assert {t["mode"] for t in said(cli, "plan")["tables"]} == {"INCREMENTAL"}
    assert asked[1] == ["plan"]


def test_a_mistake_in_a_file_is_told_as_without_a_server(asked: tuple[Gateway, list[str]]) -> None:
    cli = Cli(asked[0].settings.project)
    (cli.project / "layers" / "stg" / "users.sql").write_text("CREATE MATERIALISED TABLE stg.users")
    for command in (("plan",), ("explain", "stg.users")):
        cli(*command, code=2)
        assert "users.sql:1:8: " in cli.stderr
    assert asked[1] == ["plan", "stg.users False"]


def test_nobody_is_told_without_the_token_or_for_other_settings(asked: tuple[Gateway, list[str]]) -> None:
    settings = asked[0].settings
    with httpx.Client(base_url=settings.gateway_url, trust_env=False) as http:
        for path in ("/services", "/plan", "/plan/stg.orders"):
            assert http.get(path, headers={DIGEST: settings.digest}).status_code == 401
            login = {"Authorization": "Bearer reader"}
            assert http.get(path, headers=login).status_code == 409
            assert http.get(path, headers={**login, DIGEST: settings.digest}).status_code == 200
