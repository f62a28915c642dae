"""The suite `incremental`: what a change of a large table costs, by its size, by history and by choice."""

from __future__ import annotations

import math
import random
import shutil
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.data import orders
from benchmarks.data.large import ORDERS, SUMS, append_orders, open_large
from benchmarks.data.orders import Orders
from benchmarks.in_process import choices
from benchmarks.in_process.choices import AUTO, FULL, INCREMENTAL, Way
from benchmarks.in_process.warehouse import Warehouse
from benchmarks.report import Result, at_least, at_most, less_than
from benchmarks.runner import Bench, project_files
from headrace.engine.proof.parity import verify_batch
from headrace.engine.table.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 10_000_000

SMALL_SHARE = 0.0001
SMALL_BAR = 0.05
"""Part of the full run's seconds that a change of `SMALL_SHARE` of the keys may take."""
HISTORY_BAR = 1.3
AUTO_BAR = 1.15
RIGHT_BAR = 0.85
TIE = 1.05
"""A choice is right where what was chosen took at most this part of the fastest: less is noise."""

MIX = (0.00001, 0.6)
"""Smallest and largest share of the keys in the mix."""

REPEATS = 5
"""Refreshes behind a median, after one that does not count."""

COPIES = {AUTO: "user_hour", INCREMENTAL: "user_hour_incremental", FULL: "user_hour_full"}
"""The same table three times; the last two are refreshed in one way only."""

FORCED: dict[str, Way | None] = {AUTO: None, INCREMENTAL: INCREMENTAL, FULL: FULL}


@dataclass(frozen=True)
class Step:
    """One change of the mix: a share of all keys, in so many of the newest hours."""

    share: float
    hours: int


def mix(seed: int, rounds: int, hours: int) -> list[Step]:
    """Shares spread evenly over the logarithm of `MIX`, shuffled; every other one in few hours."""
    chance = random.Random(seed)
    low, high = (math.log(share) for share in MIX)
    shares = [math.exp(low + (high - low) * (i + chance.random()) / rounds) for i in range(rounds)]
    steps = []
    for number, share in enumerate(shares):
        few = max(math.ceil(hours * share * 1.25), math.ceil(hours / 20))
        steps.append(Step(share, min(hours, few) if number % 2 else hours))
    chance.shuffle(steps)
    return steps


@dataclass
class _Bench:
    """The large table `dwd.orders`, `dws.user_hour`, and a copy of it for each forced way."""

    warehouse: Warehouse
    shape: Orders
    copies: dict[str, Table]
    seed: int
    tell: Callable[[str], None]
    new_id: int
    changes: int = 0
    chosen: list[Way] = field(default_factory=list)

    @property
    def spark(self) -> SparkSession:
        return self.warehouse.sessions.batch

    @property
    def large(self) -> Table:
        return self.warehouse.table(ORDERS)

    def load(self, first: int, last: int) -> None:
        """Append orders, and bring every copy there by its whole query."""
        self.tell(f"loading orders {first:,} to {last:,}")
        append_orders(self.warehouse, self.shape, first, last)
        for table in self.copies.values():
            choices.refresh(self.warehouse, table, {}, FULL)
        self.warehouse.compact(after=0)

    def change(self, share: float, hours: range) -> dict[str, float]:
        """Change a share of the keys and refresh every copy; the seconds of each. The order is random."""
        self.changes += 1
        seed = self.seed * 1_000_000 + self.changes * 10  # of hashes: the next few are used, too
        old = self.large.store.frame(self.spark)
        frame = self.shape.changes(self.spark, old, seed, share, hours, self.new_id)
        self.new_id += self.shape.rows
        delta = orders.apply(self.spark, self.large, frame)
        self.warehouse.compact()  # the upstream's compaction is no part of any refresh
        seconds = {}
        for name in random.Random(seed).sample(list(self.copies), len(self.copies)):
            ran = choices.refresh(self.warehouse, self.copies[name], {self.large.name: delta}, FORCED[name])
            seconds[name] = ran.seconds
            if name == AUTO:
                self.chosen.append(ran.way)
        self.warehouse.compact()
        return seconds

    def medians(self, what: str, share: float, hours: range) -> dict[str, float]:
        """Median seconds of each copy over several changes of one size."""
        found: dict[str, list[float]] = defaultdict(list)
        for number in range(REPEATS + 1):
            self.tell(f"{what}, {number} of {REPEATS}")
            seconds = self.change(share, hours)
            self.tell(f"  {_listed(seconds)}")
            for name, taken in seconds.items():
                if number:
                    found[name].append(taken)
        return {name: median(seconds) for name, seconds in found.items()}


def run(bench: Bench) -> list[Result]:
    """See `benchmarks.runner.Suite`."""
    options, directory = bench.options, bench.directory
    shape = Orders(options.rows or ROWS)
    _write_project(directory)
    warehouse = open_large(bench)
    copies = {way: warehouse.table(f"dws.{name}") for way, name in COPIES.items()}
    copied = _Bench(warehouse, shape, copies, options.seed, bench.tell, new_id=shape.rows)
    everywhere, oldest = range(shape.hours), range(shape.hours // 10)
    copied.load(0, shape.rows // 10)
    tenth = copied.medians("0.01 % of the keys, a tenth of the history", SMALL_SHARE, oldest)
    copied.load(shape.rows // 10, shape.rows)
    whole = copied.medians("0.01 % of the keys, the whole history", SMALL_SHARE, oldest)
    spread = copied.medians("0.01 % of the keys, in all hours", SMALL_SHARE, everywhere)
    results = [
        Result("rows of the large table", copied.large.store.commit.rows),
        Result("full run", spread[FULL], "s"),
        Result("refresh after a change of 1 key in 10,000", spread[AUTO], "s"),
        at_most("its part of the full run", spread[AUTO] / spread[FULL], SMALL_BAR),
        Result("refresh with a tenth of the history", tenth[AUTO], "s"),
        Result("refresh with all of it, same change", whole[AUTO], "s"),
        less_than("cost with ten times the history", whole[AUTO] / tenth[AUTO], HISTORY_BAR, "times"),
    ]
    return [*_mixed(copied, mix(options.seed, options.rounds, shape.hours)), *results, *_equal(copied)]


def _mixed(bench: _Bench, steps: list[Step]) -> list[Result]:
    results, auto, best, right = [], 0.0, 0.0, 0
    for number, step in enumerate(steps, 1):
        bench.tell(f"mix, {number} of {len(steps)}: {step.share:.4%} of the keys in {step.hours} hours")
        hours = range(bench.shape.hours - step.hours, bench.shape.hours)
        seconds = bench.change(step.share, hours)
        chosen = bench.chosen[-1]
        forced = {name: s for name, s in seconds.items() if name != AUTO}
        fastest = min(forced.values())
        auto, best = auto + seconds[AUTO], best + fastest
        good = forced[chosen] <= TIE * fastest
        bench.tell(f"  {_listed(seconds)}: {chosen}")
        right += good
        name = f"mix {number:02}"
        results += [
            Result(f"{name}.keys", round(step.share * 100, 4), "%"),
            Result(f"{name}.hours", step.hours),
            *(Result(f"{name}.{strategy}", s, "s") for strategy, s in sorted(forced.items())),
            Result(f"{name}.{AUTO}", seconds[AUTO], "s"),
            Result(f"{name}.chosen", chosen),
            Result(f"{name}.right", good),
        ]
    return [
        *results,
        at_most("AUTO against the best choice of each refresh", auto / best, AUTO_BAR, "times"),
        at_least("right choices", right / len(steps), RIGHT_BAR),
    ]


def _listed(seconds: dict[str, float]) -> str:
    return ", ".join(f"{name} {s:.2f} s" for name, s in sorted(seconds.items()))


def _equal(bench: _Bench) -> list[Result]:
    equal = 0
    for table in bench.copies.values():
        bench.tell(f"comparing {table.name} with its SQL in batch")
        equal += verify_batch(bench.spark, bench.warehouse.registry, table).equal
    return [at_least("copies equal to batch at the end", equal, len(bench.copies))]


def _write_project(directory: Path) -> None:
    shutil.copytree(project_files("incremental"), directory / "project")
    folder = directory / "project" / "layers" / "dws"
    text = (folder / "user_hour.sql").read_text("utf-8")
    for name in COPIES.values():
        (folder / f"{name}.sql").write_text(text.replace(SUMS, f"dws.{name}"), "utf-8")
