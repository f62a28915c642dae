"""The suite `backfill`: 24 hours computed again, beside the same `INSERT OVERWRITE` written by hand."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

from benchmarks.data.large import ORDERS, SUMS, load_large
from benchmarks.in_process import choices
from benchmarks.in_process.choices import FULL
from benchmarks.in_process.warehouse import RUN, Warehouse
from benchmarks.report import Result, at_least, at_most, spread
from benchmarks.runner import Bench
from headrace.engine.backfill.backfill import backfill
from headrace.engine.proof.parity import verify_batch
from headrace.progress import Progress
from headrace.spec.partitions.label_range import LabelRange

ROWS = 5_000_000
HOURS = 24
REPEATS = 5
BAR = 1.15

_BY_HAND = """
INSERT OVERWRITE delta.`{target}`
SELECT user_id, hour, COUNT(*) AS cnt, SUM(amount) AS amount
FROM delta.`{orders}`
WHERE hour >= '{start}' AND hour <= '{end}'
GROUP BY user_id, hour
"""


def run(bench: Bench) -> list[Result]:
    """See `benchmarks.runner.Suite`."""
    warehouse, shape = load_large(bench, ROWS)
    table, spark = warehouse.table(SUMS), warehouse.sessions.batch
    choices.refresh(warehouse, table, {}, FULL)
    warehouse.compact(after=0)
    target = str(bench.directory / "by_hand")
    rows = table.store.frame(spark).select(*table.store.schema.names)
    rows.write.format("delta").partitionBy("hour").save(target)
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    orders = str(warehouse.table(ORDERS).store.snapshot.path)

    def by_hand(start: str, end: str) -> None:
        spark.sql(_BY_HAND.format(target=target, orders=orders, start=start, end=end))

    def ours(start: str, end: str) -> None:
        labels = LabelRange(start, end)
        backfill(warehouse.sessions, warehouse.registry, table, labels, run_id=RUN, progress=Progress())

    right: dict[str, list[float]] = {"headrace": [], "by hand": []}
    wrong: dict[str, list[float]] = {"headrace": [], "by hand": []}
    for number in range(REPEATS + 1):
        first = number * HOURS % max(1, shape.hours - HOURS)
        start, end = shape.label(first), shape.label(first + HOURS - 1)
        for damaged, seconds in ((False, right), (True, wrong)):
            warehouse.compact(after=0)  # as it goes on beside the stream: not the last backfill's tail
            if damaged:
                _damage(warehouse, start, end)
            taken = {"headrace": _timed(ours, start, end), "by hand": _timed(by_hand, start, end)}
            bench.tell(f"{number} of {REPEATS}, {'wrong' if damaged else 'right'}: {taken}")
            for name, spent in taken.items() if number else ():
                seconds[name].append(spent)
    bench.tell("comparing with batch")
    equal = verify_batch(spark, warehouse.registry, table).equal
    results = [Result("rows of the table", table.store.commit.rows), Result("hours", HOURS)]
    for what, seconds in (("right", right), ("wrong", wrong)):
        for name, values in seconds.items():
            results += spread(f"{name}, hours that were {what}", values)
    part, costly = (median(s["headrace"]) / median(s["by hand"]) for s in (right, wrong))
    return [
        *results,
        at_most("hours that were right, times INSERT OVERWRITE", part, BAR, "times"),
        Result("hours that were wrong in every row, times INSERT OVERWRITE", costly, "times"),
        at_least("tables equal to batch at the end", int(equal), 1),
    ]


def _timed(run: Callable[[str, str], None], start: str, end: str) -> float:
    begun = time.monotonic()
    run(start, end)
    return time.monotonic() - begun


def _damage(warehouse: Warehouse, start: str, end: str) -> None:
    """Another writer makes every row of the hours wrong."""
    store, spark = warehouse.table(SUMS).store, warehouse.sessions.batch
    path = str(store.snapshot.path)
    spark.sql(f"UPDATE delta.`{path}` SET cnt = cnt + 1 WHERE hour >= '{start}' AND hour <= '{end}'")
    store.reread()
