"""The suite `snapshot`: a new source through three tables, and the first load of a larger one."""

from __future__ import annotations

from benchmarks.live.compared import against, exact
from benchmarks.live.contender import DWS
from benchmarks.live.first_load import first_loads
from benchmarks.live.scores import scores
from benchmarks.report import Result
from benchmarks.runner import Bench

BARS = {"flink_paimon": 1.0}


def run(bench: Bench) -> list[Result]:
    """See `benchmarks.runner.Suite`."""
    found = scores(bench, lambda race: None)
    results = [
        result
        for score in found
        for result in (
            *(Result(f"{score.name}.{table}", seconds, "s") for table, seconds in score.snapshot.items()),
            Result(f"{score.name}.memory", score.memory / 2**30, "GiB"),
        )
    ]
    return [
        *results,
        *exact(found),
        *against(found, "snapshot through all tables", lambda s: s.snapshot[DWS], BARS),
        *first_loads(bench),
    ]
