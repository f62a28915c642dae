"""The end of the demo: what differs is found, told and shown, and all else is compared, too."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from repository import ROOT
from rich.console import Console

from headrace.demo import oracle, proof, shop
from headrace.demo.display import Display
from headrace.demo.report import Report
from headrace.demo.stage import WATCHED, Stage
from headrace.gateway.client import GatewayClient
from headrace.results import DifferingRow, ParityResult, Statement, TableStatus
from headrace.services.stack import Stack
from headrace.settings import Settings

ROWS = [("2026010100", 3), ("2026010101", 5)]
"""What PostgreSQL says of each dws table."""
STG = tuple(f"stg.{table}" for table in shop.TABLES)


def parity(table: str, against: str) -> ParityResult:
    return ParityResult.model_validate(
        {"table": table, "against": against, "equal": True, "rows": 2, "missing": 0, "extra": 0}
        | {"version": 1, "partitions": []}
    )


class Warehouse:
    """Its tables' rows, and what its `VERIFY` has found."""

    def __init__(self) -> None:
        self.rows = {table: list(ROWS) for table in oracle.TABLES}
        self.found = [parity(table, "batch") for table in (*STG, *oracle.TABLES)]
        self.found += [parity(table, "source") for table in STG]

    def run(self, sql: str, on_progress: Callable[[Statement], None]) -> Statement:
        assert sql == "VERIFY"
        result = [found.model_dump() for found in self.found]
        return Statement(id="1", text=sql, state="SUCCEEDED", message="", result=result)

    def query(self, sql: str) -> pa.Table:
        labels, counts = zip(*self.rows[sql.removeprefix("SELECT * FROM ")], strict=True)
        return pa.table({"n": counts, "logdate": labels})  # in another order than PostgreSQL's

    def status(self) -> list[TableStatus]:
        return [
            TableStatus(
                table=WATCHED, mode="CONTINUOUS", state="RUNNING", strategy="ROW", declared_freshness=10,
                measured_freshness=1, rows=2, version=1, snapshot_version=1, lag=0, tail_rows=0,
            )
        ]  # fmt: skip


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """The repository's layers, all of them right."""
    for name in ("layers", "deploy"):
        (tmp_path / name).symlink_to(ROOT / name)
    connection = nullcontext(SimpleNamespace(execute=lambda _: None))
    monkeypatch.setattr(proof, "psycopg", SimpleNamespace(connect=lambda _: connection))
    monkeypatch.setattr(oracle, "expected", lambda _, table: (("logdate", "n"), ROWS))
    monkeypatch.setattr(Settings, "postgres_dsn", lambda self, database=None: "")
    settings, warehouse = Settings.load(tmp_path), Warehouse()
    snapshot = settings.warehouse / "dws" / "user_hour" / "snapshot"
    write_deltalake(snapshot, warehouse.query(f"SELECT * FROM {WATCHED}"))
    display = Display(Console(file=io.StringIO(), width=200))
    client, stack = cast("GatewayClient", warehouse), cast("Stack", None)
    return Stage(settings, stack, client, display, Report(seed=7, rate=40))


def warehouse_of(stage: Stage) -> Warehouse:
    return cast("Any", stage.client)


def prove(stage: Stage) -> str:
    """What is shown."""
    proof.prove(stage)
    return cast("Any", stage.display.console.file).getvalue()


def test_what_is_equal_is_no_problem(stage: Stage) -> None:
    shown, report = prove(stage), stage.report
    assert report.problems == [] and "only in" not in shown
    assert report.postgres == dict.fromkeys(oracle.TABLES, True)
    assert report.snapshot_equal == {WATCHED: True}
    assert {t: f.source_parity for t, f in report.tables.items()} == {
        **dict.fromkeys(STG, True),
        **dict.fromkeys(oracle.TABLES),
    }
    assert all(f.parity and f.rows == 2 for f in report.tables.values())


@pytest.mark.parametrize(
    ("rows", "told", "shown"),
    [
        (ROWS[1:], "1 rows missing, 0 too many", ["only in expected: logdate=2026010100, n=3"]),
        ([*ROWS, ROWS[0]], "0 rows missing, 1 too many", ["only in table: logdate=2026010100, n=3"]),
        (
            [ROWS[0], ("2026010101", 6)],
            "1 rows missing, 1 too many",
            ["only in table: logdate=2026010101, n=6", "only in expected: logdate=2026010101, n=5"],
        ),
    ],
    ids=["lost", "twice", "altered"],
)
def test_a_row_that_postgres_has_otherwise_is_told_and_shown(
    stage: Stage, rows: list[tuple[str, int]], told: str, shown: list[str]
) -> None:
    warehouse_of(stage).rows["dws.gmv_hour"] = rows
    seen, report = prove(stage), stage.report
    assert report.postgres == {table: table != "dws.gmv_hour" for table in oracle.TABLES}
    assert report.problems == [f"dws.gmv_hour against PostgreSQL: {told}"]
    for line in shown:
        assert line in seen
    assert report.snapshot_equal == {WATCHED: True}  # the proof goes on


def test_a_table_that_differs_from_its_batch_is_told_and_shown(stage: Stage) -> None:
    found = warehouse_of(stage).found
    found[0] = found[0].model_copy(
        update={"equal": False, "extra": 1, "sample": [DifferingRow(side="table", row={"n": 4})]}
    )
    shown, report = prove(stage), stage.report
    assert report.problems == [f"{STG[0]} against batch: 0 rows missing, 1 too many"]
    assert not report.tables[STG[0]].parity and report.tables[STG[0]].source_parity
    assert "only in table: n=4" in shown


def test_a_stg_table_that_was_not_compared_with_its_source_is_a_problem(stage: Stage) -> None:
    warehouse_of(stage).found.pop()
    prove(stage)
    assert stage.report.problems == [f"not compared with the source: {STG[-1]}"]


def test_a_snapshot_that_is_not_the_live_rows_is_told(stage: Stage) -> None:
    snapshot = stage.settings.warehouse / "dws" / "user_hour" / "snapshot"
    write_deltalake(snapshot, pa.table({"n": [3], "logdate": ["2026010100"]}), mode="overwrite")
    shown, report = prove(stage), stage.report
    assert report.snapshot_equal == {WATCHED: False}
    told = f"the snapshot of {WATCHED} against its live rows: 1 rows missing, 0 too many"
    assert report.problems == [told]
    assert "only in expected: n=5, logdate=2026010101" in shown
