"""The suite `scale`: the same chain over more and more rows, headrace alone."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.live.contender import DWS
from benchmarks.live.race import Race
from benchmarks.live.scores import ROWS, scores
from benchmarks.report import Result, at_most
from benchmarks.runner import Bench

PARTS = (0.25, 0.5, 1.0)
WARM_UP_SECONDS, SECONDS = 20.0, 30.0
GROWTH_BAR = 1.5
"""Times the cost of a row that four times the rows may come to."""


def run(bench: Bench) -> list[Result]:
    """See `benchmarks.runner.Suite`."""
    most = bench.options.rows or ROWS
    results: list[Result] = []
    costs: list[float] = []
    differing = 0

    def phases(race: Race) -> None:
        race.freshness(WARM_UP_SECONDS, SECONDS)
        race.throughput(1)

    for number, part in enumerate(PARTS):
        rows = round(most * part)
        options = replace(bench.options, rows=rows, peers=())
        bench.tell(f"{rows:,} orders")
        place = bench.directory / str(number)
        place.mkdir()
        [score] = scores(replace(bench, options=options, directory=place), phases)
        differing += sum(map(len, score.wrong.values()))
        costs.append(score.bulk_seconds / score.updated)
        name = f"{rows:,} orders"
        results += [
            Result(f"{name}.snapshot", rows / score.snapshot[DWS], "rows/s"),
            Result(f"{name}.update of all", score.updated / score.bulk_seconds, "rows/s"),
            Result(f"{name}.freshness p50", score.delay(0.5), "s"),
            Result(f"{name}.freshness p99", score.delay(0.99), "s"),
            Result(f"{name}.memory", score.memory / 2**30, "GiB"),
        ]
    return [
        *results,
        at_most("cost of an updated row, four times the rows", costs[-1] / costs[0], GROWTH_BAR, "times"),
        at_most("tables that differ from PostgreSQL", differing, 0),
    ]
