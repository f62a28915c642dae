"""The suite `throughput`: one update of every order, through three tables."""

from __future__ import annotations

from benchmarks.live.compared import against, exact
from benchmarks.live.scores import scores
from benchmarks.report import Result
from benchmarks.runner import Bench

ROUNDS = 3
BARS = {"flink_paimon": 1.0, "spark_merge": 0.2}


def run(bench: Bench) -> list[Result]:
    """See `benchmarks.runner.Suite`."""
    found = scores(bench, lambda race: race.throughput(ROUNDS))
    results = []
    for score in found:
        for table in score.bulk[0] if score.bulk else ():
            seconds = sorted(turn[table] for turn in score.bulk)
            results.append(Result(f"{score.name}.{table} min", seconds[0], "s"))
            results.append(Result(f"{score.name}.{table} max", seconds[-1], "s"))
        results.append(Result(f"{score.name}.median through all", score.bulk_seconds, "s"))
        results.append(Result(f"{score.name}.rows a second", score.updated / score.bulk_seconds))
        results.append(Result(f"{score.name}.memory", score.memory / 2**30, "GiB"))
    return [
        *results,
        *exact(found),
        *against(found, "an update of every order, seconds", lambda s: s.bulk_seconds, BARS),
    ]
