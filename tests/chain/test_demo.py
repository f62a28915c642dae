"""The README's first command, for real: from a shop to the proof, and nothing left behind."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from running_shop import ROOT, copy_project

from headrace.demo import oracle
from headrace.demo.report import Report
from headrace.demo.shop import create_shop
from headrace.demo.stage import WATCHED
from headrace.services import processes
from headrace.services.scratch import scratch_settings
from headrace.services.stack import Stack
from headrace.settings import Settings
from headrace.spec import load_project

pytestmark = pytest.mark.long


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    """Of a project of its own, with a shop that is smaller than the one the demo would create."""
    copy_project(tmp_path)
    with scratch_settings(tmp_path, compaction_interval_seconds=5.0, driver_memory="1g") as settings:
        stack = Stack(settings)
        try:
            stack.up(only=["postgres"])
            create_shop(settings.postgres_dsn(), seed=11, orders=2_000, users=60, products=25, words=400)
            yield settings
        finally:
            stack.down()


def test_the_demo_ends_with_every_table_proven_and_stops_what_it_started(settings: Settings) -> None:
    figures = settings.project / "figures.json"
    options = ("--exit", "--json", str(figures), "--rate", "20", "--warm-up", "0", "--seconds", "6")
    done = subprocess.run(
        [str(ROOT / "headrace"), "demo", *options],
        env=os.environ | settings.variables(),
        cwd=settings.project,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    report = Report.model_validate_json(figures.read_text())
    # A few seconds of load on cold tables, beside other tests: they may be late, and then it has to say so.
    late = {table for table, kept in report.kept.items() if kept.p90 > kept.declared}
    assert {problem.split(" missed its freshness")[0] for problem in report.problems} == late
    assert (done.returncode, report.ok) == ((1, False) if late else (0, True)), done.stdout + done.stderr
    assert processes.marked(settings.state) == []

    specs = load_project(settings.project).tables
    tables = {str(name): spec for name, spec in specs.items()}
    assert report.tables.keys() == tables.keys()
    assert all(figures.parity and figures.rows for figures in report.tables.values())
    against_source = {name: figures.source_parity for name, figures in report.tables.items()}
    assert against_source == {name: True if spec.source else None for name, spec in tables.items()}
    assert report.postgres == dict.fromkeys(oracle.TABLES, True)
    assert set(oracle.TABLES) == {name for name in tables if name.startswith("dws.")}
    assert report.snapshot_equal == {WATCHED: True}

    assert report.compiler is not None and report.compiler.micro_batches > 0 and report.compiler.share > 0
    assert report.load is not None and report.load.changes >= 20
    assert report.freshness is not None and report.freshness.samples > 0
    assert 0 < report.freshness.min <= report.freshness.p50 <= report.freshness.p99
    assert report.kept.keys() >= {WATCHED, "stg.orders", "dwd.orders"} and len(report.first_minutes) == 1
    assert report.backfill is not None and report.backfill.stream_advanced
    assert (report.backfill.partitions, report.backfill.corrections, report.backfill.emitted) == (6, 0, 0)
    assert report.backfill.rows > 0
    assert report.resident_bytes_peak > 0
    for shown in (*tables, "freshness", "peak resident memory", settings.dagster_url):
        assert shown in done.stdout
