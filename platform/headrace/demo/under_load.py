"""The middle of the demo: load, freshness, and a backfill beside the stream."""

from __future__ import annotations

import time

from headrace.demo.backfill import backfill
from headrace.demo.display import Say
from headrace.demo.freshness import FreshnessProbe, by_minute, delays, of_tables, summarize
from headrace.demo.load import LoadGenerator
from headrace.demo.report import CompilerFigures, LoadFigures
from headrace.demo.stage import WATCHED, Stage
from headrace.demo.start import wait_until_caught_up
from headrace.demo.waiting import wait_for
from headrace.gateway.client import GatewayClient

AFTER_BACKFILL_SECONDS = 5.0
CATCH_UP_TIMEOUT = 300.0
FIRST_MINUTES = 3


def load_and_measure(stage: Stage, *, warm_up: float, seconds: float) -> None:
    """`seconds` of load after the warm-up, a backfill in their middle, and the way back to rest."""
    report, display = stage.report, stage.display
    load = LoadGenerator(stage.dsn, seed=report.seed, rate=report.rate, probe=True)
    with GatewayClient(stage.settings) as reader:
        probe = FreshnessProbe(lambda: stage.visible_tick(reader))
        with probe, load:
            with display.step("warm_up", "Warm up under load") as say:
                warm = _warm_up(probe, load, warm_up, say)
            with display.step(
                "load", f"Load of {report.rate:.0f} changes a second, freshness measured"
            ) as say:
                jvm = stage.client.jvm()
                _pass(probe, load, seconds / 3, say)
                report.backfill = backfill(stage, probe, load, say)
                _pass(probe, load, max(AFTER_BACKFILL_SECONDS, warm + seconds - time.monotonic()), say)
                report.kept = of_tables(stage.client.status())
                if jvm is not None and (now := stage.client.jvm()) is not None:
                    report.compiler = CompilerFigures.between(jvm, now)
                load.stop()
                say(f"{load.changes:,} row changes")
            report.load = LoadFigures(
                changes=load.changes, seconds=round(load.seconds, 1), kinds=dict(load.done.most_common())
            )
            with display.step("catch_up", "Load stopped: wait until all of it is in every table") as say:
                _wait_for_last_tick(probe, load, say)
                wait_until_caught_up(stage, say, what="all changes in all tables", timeout=CATCH_UP_TIMEOUT)
                say(f"tick {load.last_tick} is visible")
    _measure(stage, probe, load, since=warm)


def _warm_up(probe: FreshnessProbe, load: LoadGenerator, seconds: float, say: Say) -> float:
    """Until the warm-up time is over and this run's ticks are visible. Returns when that was."""
    started = time.monotonic()

    def outstanding() -> str | None:
        load.raise_if_failed()
        ticks, visible = load.ticks, probe.visible
        if not ticks or visible is None or visible < ticks[0][0]:
            return "no tick visible yet"
        left = started + seconds - time.monotonic()
        return f"{left:.0f} s left, tick {visible} of {ticks[-1][0]} visible" if left > 0 else None

    wait_for("the first change under load", outstanding, timeout=CATCH_UP_TIMEOUT, say=say)
    say(f"tick {probe.visible} visible")
    return time.monotonic()


def _pass(probe: FreshnessProbe, load: LoadGenerator, seconds: float, say: Say) -> None:
    """Let time go by, and look at whether everything still runs."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        load.raise_if_failed()
        say(f"{load.changes:,} changes, tick {probe.visible} of {load.last_tick} visible")
        time.sleep(min(0.5, left))


def _wait_for_last_tick(probe: FreshnessProbe, load: LoadGenerator, say: Say) -> None:
    last = load.last_tick or 0

    def outstanding() -> str | None:
        visible = probe.visible or 0
        return None if visible >= last else f"tick {visible} of {last} visible"

    wait_for("the load's last change", outstanding, timeout=CATCH_UP_TIMEOUT, say=say)


def _measure(stage: Stage, probe: FreshnessProbe, load: LoadGenerator, *, since: float) -> None:
    # Light load is what the figure is for; the backfill reports the freshness beside it itself.
    first, last = stage.report.backfill.span if stage.report.backfill else (since, since)
    ticks = [tick for tick in load.ticks if tick[1] >= since and not first <= tick[1] <= last]
    stage.report.freshness = summarize(list(delays(ticks, probe.reads).values()))
    stage.report.first_minutes = by_minute(load.ticks, probe.reads, FIRST_MINUTES)
    stage.report.live_read = summarize(probe.read_seconds)
    if probe.steps_back:
        stage.report.problems.append(
            f"{probe.steps_back} live reads of {WATCHED} showed an older state than the read before"
        )
