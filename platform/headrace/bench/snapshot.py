"""The suite `snapshot`: a new source through three tables, and the first load of a larger one."""

from __future__ import annotations

from headrace.bench.compared import against, exact
from headrace.bench.contender import DWS
from headrace.bench.first_load import first_loads
from headrace.bench.live import scores
from headrace.bench.report import Result
from headrace.bench.suites import Bench

BARS = {"flink_paimon": 1.0}


def run(bench: Bench) -> list[Result]:
    """See `headrace.bench.suites.Suite`."""
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
