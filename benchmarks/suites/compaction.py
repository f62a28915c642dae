"""The suite `compaction`: what reading a tail costs, and what bringing it into the snapshot does."""

from __future__ import annotations

import time
from collections import defaultdict
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.data.large import ORDERS, load_large
from benchmarks.in_process import feed
from benchmarks.in_process.warehouse import COMPACT_AFTER, RUN
from benchmarks.report import Result, at_least, at_most, spread
from benchmarks.runner import Bench
from headrace.engine.compaction.compaction import compact
from headrace.engine.table.table import Table

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

ROWS = 5_000_000
TAIL = COMPACT_AFTER * 8 // 10
"""Changed keys, about: as many as the warehouse server may leave in a tail."""
REPEATS = 5
LIVE_BAR = 1.5

ALL, NEWEST = "all hours", "newest hour"


def run(bench: Bench) -> list[Result]:
    """See `benchmarks.runner.Suite`."""
    warehouse, shape = load_large(bench, ROWS)
    table, spark = warehouse.table(ORDERS), warehouse.sessions.batch
    warehouse.compact(after=0)
    seconds: dict[str, list[float]] = defaultdict(list)
    folded = 0
    for number in range(REPEATS + 1):
        for what, hours in ((ALL, range(shape.hours)), (NEWEST, range(shape.hours)[-1:])):
            seed, new_ids = bench.options.seed * 1000 + number, shape.rows * (2 * number + len(hours) + 1)
            changed = shape.changes(spark, table.store.frame(spark), seed, TAIL / shape.rows, hours, new_ids)
            feed.append_local(table, changed.toArrow())
            taken = {
                "live read": _read(spark, table, live=True)[1],
                "snapshot alone": _read(spark, table, live=False)[1],
            }
            before = _read(spark, table, live=True)[0]
            begun = time.monotonic()
            compact(spark, table, run_id=RUN)
            taken[f"compaction, changes in {what}"] = time.monotonic() - begun
            folded += before == _read(spark, table, live=False)[0]
            bench.tell(f"{number} of {REPEATS}: " + ", ".join(f"{k} {s:.2f} s" for k, s in taken.items()))
            for name, spent in taken.items() if number else ():
                seconds[name].append(spent)
    part = median(seconds["live read"]) / median(seconds["snapshot alone"])
    return [
        Result("rows of the table", table.store.commit.rows),
        Result("changed keys of a tail", TAIL),
        *(result for name, found in seconds.items() for result in spread(name, found)),
        at_most("live read, times the snapshot alone", part, LIVE_BAR, "times"),
        at_least("snapshots equal to the live read before", folded, 2 * (REPEATS + 1)),
    ]


def _read(spark: SparkSession, table: Table, *, live: bool) -> tuple[list[Row], float]:
    """Number and sum of the orders of each hour, and the seconds that took."""
    store = table.store
    begun = time.monotonic()
    rows = store.frame(spark) if live else store.snapshot.frame(spark, store.pin)
    found = rows.groupBy("hour").agg({"*": "count", "amount": "sum"}).orderBy("hour").collect()
    return found, time.monotonic() - begun
