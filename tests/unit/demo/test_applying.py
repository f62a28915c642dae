"""The demo over data of an earlier checkout: what its layer files declare now is applied first."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from repository import ROOT
from rich.console import Console

from headrace.catalog import Catalog
from headrace.demo import shop, start
from headrace.demo.daily import REPORT
from headrace.demo.display import Display
from headrace.demo.report import Report
from headrace.demo.stage import Stage
from headrace.demo.start import start_everything
from headrace.errors import TerminalError
from headrace.gateway.client import GatewayClient, StatementFailed, StatementInterrupted
from headrace.planner.policy.modes import refresh_modes
from headrace.results import AppliedTable, ApplyResult, Statement, TableStatus
from headrace.services.stack import Stack
from headrace.settings import Settings
from headrace.spec import load_project

ROWS = dict.fromkeys(shop.TABLES, 9)


class Warehouse:
    """Runs the tables that were applied; the server's start takes its time."""

    def __init__(self, tables: list[str], starts: int = 0) -> None:
        self.tables = tables
        self.starting = starts
        self.added: list[str] = []
        self.ran: list[str] = []
        self.fails: Exception | None = None

    def run(self, sql: str, on_progress: Callable[[Statement], None] = lambda _: None) -> Statement:
        self.ran.append(sql)
        if self.starting:
            self.starting -= 1
            raise StatementInterrupted("the tables have not started yet")
        changes = [
            AppliedTable(
                table=t, change="ADDED", what=[], begins_again=False, downstream=[], partitions=0, bytes=0
            )
            for t in self.added
        ]
        if sql == "APPLY":
            if self.fails is not None:
                raise self.fails
            self.tables, self.added = [*self.tables, *self.added], []
        else:
            assert sql == "APPLY DRY RUN", sql
        result = ApplyResult(dry_run=sql != "APPLY", tables=changes).model_dump()
        return Statement(id="1", text=sql, state="SUCCEEDED", message="working", result=result)

    def status(self) -> list[TableStatus]:
        assert not self.added, "the files are to be applied first"
        return [
            TableStatus(
                table=table, mode="CONTINUOUS", state="RUNNING", strategy="ROW", declared_freshness=10,
                measured_freshness=1, rows=9, version=1, snapshot_version=1, lag=0,
            )
            for table in self.tables
        ]  # fmt: skip


class NoStack:
    def up(self, **arguments: object) -> None: ...

    def register_connectors(self, **arguments: object) -> None: ...


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The repository's layers, over a shop that is there."""
    for name in ("layers", "deploy"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.setattr(Settings, "postgres_dsn", lambda self, database=None: "")
    monkeypatch.setattr(start.shop, "create_shop", lambda dsn, seed: False)
    monkeypatch.setattr(start.shop, "row_counts", lambda dsn: ROWS)
    return Settings.load(tmp_path)


def declared(settings: Settings) -> list[str]:
    return list(map(str, load_project(settings.project).tables))


def deploy(settings: Settings, *, without: str = "") -> None:
    """What a server has noted of an earlier run."""
    project = load_project(settings.project)
    modes = refresh_modes(project, timedelta(minutes=30))
    catalog = Catalog(settings.catalog)
    for name, spec in project.tables.items():
        if str(name) != without:
            catalog.register(spec, *modes[name])
    catalog.close()


def play(settings: Settings, warehouse: Warehouse) -> str:
    """What the first steps of the demo show."""
    console = Console(file=io.StringIO(), width=200)
    client, stack = cast("GatewayClient", warehouse), cast("Stack", NoStack())
    start_everything(Stage(settings, stack, client, Display(console), Report(seed=7, rate=40)))
    return cast("Any", console.file).getvalue()


def test_a_table_that_the_data_lacks_is_there_before_the_demo_goes_on(settings: Settings) -> None:
    deploy(settings, without=REPORT)
    warehouse = Warehouse([t for t in declared(settings) if t != REPORT], starts=1)
    warehouse.added = [REPORT]
    shown = play(settings, warehouse)
    assert warehouse.ran == ["APPLY DRY RUN", "APPLY DRY RUN", "APPLY"]
    assert REPORT in warehouse.tables
    assert "✓ Apply the layer files: they differ" in shown and f"{REPORT} added" in shown


def test_what_the_servers_start_has_done_is_not_done_again(settings: Settings) -> None:
    deploy(settings, without=REPORT)
    warehouse = Warehouse(declared(settings))
    assert "the server's start has done it" in play(settings, warehouse)
    assert warehouse.ran == ["APPLY DRY RUN"]


@pytest.mark.parametrize("before", [True, False])
def test_nothing_is_applied_where_nothing_differs(settings: Settings, before: bool) -> None:
    """Over data of the same files, and from nothing."""
    if before:
        deploy(settings)
    warehouse = Warehouse(declared(settings))
    assert "Apply" not in play(settings, warehouse)
    assert warehouse.ran == []


def test_files_that_cannot_be_applied_end_the_demo(settings: Settings) -> None:
    deploy(settings, without=REPORT)
    warehouse = Warehouse(declared(settings))
    warehouse.added, warehouse.fails = [REPORT], StatementFailed("it would begin again")
    with pytest.raises(TerminalError, match="it would begin again"):
        play(settings, warehouse)
