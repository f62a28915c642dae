"""The suite `freshness`: from a commit in PostgreSQL to the commit of the third table that shows it."""

from __future__ import annotations

import math

from benchmarks.live.compared import against, exact
from benchmarks.live.contender import DWD
from benchmarks.live.headrace import Headrace
from benchmarks.live.race import Race
from benchmarks.live.scores import scores
from benchmarks.report import Result, at_most
from benchmarks.runner import Bench

WARM_UP_SECONDS, SECONDS = 60.0, 60.0
P50_BAR, P99_BAR = 0.35, 0.8
PARTITIONS, BESIDE_BAR = 30, 1.4
BARS = {"flink_paimon": 1.0}


def run(bench: Bench) -> list[Result]:
    """See `benchmarks.runner.Suite`."""
    found = scores(bench, _measure)
    results = []
    for score in found:
        figures = {f"p{share:.0%}".rstrip("%"): score.delay(share) for share in (0.5, 0.9, 0.99)}
        figures |= {"min": min(score.delays, default=math.nan), "max": max(score.delays, default=math.nan)}
        results += [Result(f"{score.name}.{name}", seconds, "s") for name, seconds in figures.items()]
        results += [
            Result(f"{score.name}.samples", len(score.delays)),
            Result(f"{score.name}.missing", score.missing),
            Result(f"{score.name}.cores", score.cores),
            Result(f"{score.name}.memory", score.memory / 2**30, "GiB"),
        ]
    ours = found[0]
    beside = ours.delay_beside(0.9)
    results += [
        Result(f"seconds of a backfill of {PARTITIONS} partitions beside it", ours.backfill_seconds, "s"),
        Result("freshness beside such backfills, p90", beside, "s"),
    ]
    return [
        *results,
        *exact(found),
        at_most("changes that never showed", ours.missing, 0),
        at_most("freshness, p50", ours.delay(0.5), P50_BAR, "s"),
        at_most("freshness, p99", ours.delay(0.99), P99_BAR, "s"),
        at_most("freshness beside such backfills, p90, part of alone", beside / ours.delay(0.9), BESIDE_BAR),
        *against(found, "freshness, p50", lambda s: s.delay(0.5), BARS),
    ]


def _measure(race: Race) -> None:
    contender = race.contender
    race.freshness(WARM_UP_SECONDS, SECONDS)
    if isinstance(contender, Headrace):
        start, end = contender.oldest(DWD, PARTITIONS)  # a query of its own would be in the way as well
        race.freshness_beside(SECONDS, lambda: contender.backfill(DWD, start, end))
