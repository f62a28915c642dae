"""The frame of the demo: verdict, figures, and the end of the stack, whatever happens inside."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from rich.console import Console

from headrace.demo import demo
from headrace.demo.display import Display
from headrace.demo.freshness import Freshness, TableFreshness
from headrace.demo.memory import resident_bytes
from headrace.demo.report import BackfillFigures, CompilerFigures, Report, TableFigures
from headrace.demo.stage import Stage
from headrace.errors import TerminalError
from headrace.results import DifferingRow, JvmStatus
from headrace.settings import Settings

FRESHNESS = Freshness(p50=1.5, p90=2, p99=3, min=1, max=3, samples=120)


def complete(report: Report) -> None:
    report.tables = {
        "stg.orders": TableFigures(rows=10, parity=True, source_parity=True),
        "dws.user_hour": TableFigures(rows=5, parity=True),
    }
    report.postgres = {"dws.user_hour": True}
    report.snapshot_equal = {"dws.user_hour": True}
    report.freshness = FRESHNESS
    report.backfill = BackfillFigures(
        table="dws.user_hour",
        start="2026010100",
        end="2026010105",
        partitions=6,
        rows=100,
        seconds=3,
        corrections=0,
        emitted=0,
        ticks_meanwhile=5,
        stream_advanced=True,
    )


def verdict(**changes: object) -> bool:
    report = Report(seed=1, rate=40)
    complete(report)
    report = report.model_copy(update=changes)
    report.finish()
    return report.ok


def test_all_equal_is_ok() -> None:
    assert verdict()


@pytest.mark.parametrize(
    "changes",
    [
        {"problems": ["anything"]},
        {"tables": {}},
        {"tables": {"dws.a": TableFigures(rows=1, parity=False)}},
        {"tables": {"stg.a": TableFigures(rows=1, parity=True, source_parity=False)}},
        {"postgres": {"dws.user_hour": False}},
        {"postgres": {}},
        {"snapshot_equal": {"dws.user_hour": False}},
        {"freshness": None},
        {"backfill": None},
        {"kept": {"dws.a": TableFreshness(declared=10, p50=2, p90=10.1)}},
    ],
)
def test_any_difference_and_anything_not_reached_is_not_ok(changes: dict[str, object]) -> None:
    assert not verdict(**changes)


def test_a_missed_freshness_is_told_with_what_was_declared(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def late(report: Report) -> None:
        complete(report)
        report.first_minutes = [FRESHNESS]
        report.kept = {
            "stg.orders": TableFreshness(declared=10, p50=1, p90=10),
            "dws.user_hour": TableFreshness(declared=10, p50=2, p90=12.34),
        }

    assert play(settings, monkeypatch, late) == 1
    shown = capsys.readouterr().out
    assert "dws.user_hour missed its freshness: p90 12.3 s in the last minute of load, declared 10 s" in shown
    assert "stg.orders missed" not in shown
    [line] = [line for line in shown.splitlines() if line.startswith("dws.user_hour ")]
    assert line.split() == ["dws.user_hour", "5", "equal", "equal", "10", "s", "2.0", "s", "12.3", "s"]
    assert "first minutes of load p50 1.50 s, p90 2.00 s" in shown


def test_what_was_compiled_is_what_came_between_two_looks() -> None:
    def look(spent: float, compiling: float, classes: int, batches: int) -> JvmStatus:
        return JvmStatus(
            java="25",
            processor_seconds=spent,
            compiler_seconds=compiling,
            classes_generated=classes,
            micro_batches=batches,
        )

    found = CompilerFigures.between(look(100, 30, 50, 7), look(160, 33, 52, 27))
    assert found == CompilerFigures(classes=2, micro_batches=20, share=0.05)


class FakeStack:
    stopped = 0

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def status(self) -> list[object]:
        return []

    def down(self, *, on_progress: object = None) -> None:
        FakeStack.stopped += 1


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    FakeStack.stopped = 0
    monkeypatch.setattr(demo, "Stack", FakeStack)
    return Settings.load(tmp_path)


def play(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, act: object, *, exit_at_end: bool = True
) -> int:
    def run(stage: Stage, *, warm_up: float, seconds: float) -> None:
        if isinstance(act, BaseException):
            raise act
        assert callable(act)
        act(stage.report)

    monkeypatch.setattr(demo, "play", run)
    return demo.run(
        settings,
        exit_at_end=exit_at_end,
        json_file=settings.project / "figures" / "demo.json",
        seed=7,
        rate=40,
        warm_up=0,
        seconds=1,
    )


def figures(settings: Settings) -> dict[str, object]:
    found: dict[str, object] = json.loads((settings.project / "figures" / "demo.json").read_text())
    return found


def test_a_run_with_all_equal_ends_0_and_stops_the_stack(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert play(settings, monkeypatch, complete) == 0
    assert FakeStack.stopped == 1
    assert figures(settings)["ok"] is True
    assert figures(settings)["seed"] == 7
    assert "p50 1.50 s" in capsys.readouterr().out


def test_a_run_with_a_wrong_table_ends_1(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(report: Report) -> None:
        complete(report)
        report.postgres["dws.user_hour"] = False

    assert play(settings, monkeypatch, wrong) == 1
    assert FakeStack.stopped == 1
    assert figures(settings)["ok"] is False


def test_without_exit_the_stack_stays_and_the_way_to_stop_it_is_told(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert play(settings, monkeypatch, complete, exit_at_end=False) == 0
    assert FakeStack.stopped == 0
    assert "headrace down" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "code"),
    [(TerminalError("no PostgreSQL"), 1), (ValueError("unforeseen"), 1), (KeyboardInterrupt(), 130)],
)
def test_a_failure_stops_the_stack_and_still_writes_the_figures(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int
) -> None:
    assert play(settings, monkeypatch, error) == code
    assert FakeStack.stopped == 1
    written = figures(settings)
    assert written["ok"] is False and written["problems"]


def test_termination_is_an_interrupt(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGTERM)
    assert play(settings, monkeypatch, lambda report: os.kill(os.getpid(), signal.SIGTERM)) == 130
    assert FakeStack.stopped == 1
    assert signal.getsignal(signal.SIGTERM) == before


def test_without_a_terminal_progress_is_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.demo.display.time", SimpleNamespace(monotonic=lambda: 7.0))
    out = io.StringIO()
    display = Display(Console(file=out, width=200))
    with display.step("load", "Load") as say:
        say("100 [changes]")
    display.differing("dws.a against batch", [DifferingRow(side="table", row={"n": 1})])
    assert display.seconds.keys() == {"load"}
    lines = out.getvalue().splitlines()
    assert lines[0].strip() == "Load …"
    assert "✓ Load (0.0 s) 100 [changes]" in lines[2]
    assert lines[-1].strip() == "only in table: n=1"


def test_memory_counts_a_process_and_what_it_started_once() -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    try:
        deadline = time.monotonic() + 30
        while True:  # until both have started, so that nothing grows between two looks
            once, twice = resident_bytes([child.pid]), resident_bytes([child.pid, child.pid])
            settled = once == resident_bytes([child.pid]) and psutil.Process(child.pid).children()
            if settled and once > 8_000_000:
                break
            assert time.monotonic() < deadline
        # another process that maps the same library meanwhile takes a part of its pages
        assert abs(twice - once) < once / 10
    finally:
        child.communicate(b"\n", timeout=30)
    assert resident_bytes([child.pid]) == 0
