"""Earliest deadline first over recurring refreshes, simulated by an own clock."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from random import Random
from typing import TypeVar

import pytest

from headrace.percentile import percentile
from headrace.scheduling.deadlines import (
    CAPACITY,
    LEISURE,
    MOST_STRETCH,
    SPACING,
    Deadlines,
    Demand,
    allow,
)

FRESHNESS = (30.0, 60.0, 300.0, 900.0)


K = TypeVar("K", int, str)


def turn(queue: Deadlines[K], now: float) -> tuple[K | None, float]:
    """Whose turn it is now; without one, the time at which to ask again."""
    key, wait = queue.next(now)
    if key is None:
        assert wait is not None
        now += wait
    return key, now


@dataclass
class Simulated:
    """One worker, and tables whose source never rests."""

    tables: dict[int, Demand]

    def run(self, seconds: float, *, cold: float = 1.0) -> dict[int, list[float]]:
        """Play so many seconds. Returns each table's delays, from a change to its being there.

        Args:
            cold: times its cost that the first refresh of each table takes.
        """
        queue: Deadlines[int] = Deadlines()
        delays: dict[int, list[float]] = defaultdict(list)
        now, shown = 0.0, dict.fromkeys(self.tables, 0.0)
        for key, table in self.tables.items():
            queue.ask(key, table.freshness, now)
        while now < seconds:
            key, now = turn(queue, now)
            if key is None:
                continue
            queue.begin(key, now)
            took = self.tables[key].cost * (1.0 if delays[key] else cold)
            queue.ask(key, self.tables[key].freshness, now)  # the next change comes at once
            since, shown[key] = shown[key], now
            now += took
            queue.end(key, now)
            delays[key].append(now - since)
        return delays


def tables(count: int, load: float, seed: int) -> dict[int, Demand]:
    """So many of mixed freshness that together ask for this share of the time."""
    chance = Random(seed)
    found = {n: Demand(chance.choice(FRESHNESS), chance.uniform(0.2, 1.0)) for n in range(count)}
    times = load / sum(demand.utilization for demand in found.values())
    return {n: Demand(demand.freshness, demand.cost * times) for n, demand in found.items()}


def late(found: dict[int, Demand], delays: dict[int, list[float]], settled: int) -> set[int]:
    """Those whose p90 is beyond what they declare, after their first refreshes."""
    return {n for n, table in found.items() if percentile(sorted(delays[n][settled:]), 0.9) > table.freshness}


def test_a_thousand_tables_at_four_fifths_of_the_load_are_all_on_time() -> None:
    found = tables(1000, 0.8, seed=1)
    delays = Simulated(found).run(4000)
    assert late(found, delays, settled=2) == set()
    assert all(max(delays[n][2:]) <= 1.01 * table.freshness for n, table in found.items())


def test_beyond_what_can_be_done_the_loosest_alone_are_late() -> None:
    found = tables(1000, 1.3, seed=2)
    delays = Simulated(found).run(12_000)
    behind = late(found, delays, settled=2)
    assert behind
    assert min(found[n].freshness for n in behind) >= max(
        table.freshness for n, table in found.items() if n not in behind
    )
    # None starves, and none is later than it was said to be.
    stretch = allow(found).stretch
    assert behind <= stretch.keys()
    assert all(max(delays[n][2:]) <= 1.05 * found[n].freshness * stretch[n] for n in behind)


def test_a_slow_cold_refresh_does_not_mark_a_table_for_ever() -> None:
    found = tables(50, 0.5, seed=3)
    delays = Simulated(found).run(12_000, cold=40.0)
    assert late(found, delays, settled=8) == set()


@pytest.mark.parametrize("load", [0.01, 0.1, 0.25])
def test_where_there_is_time_tables_are_refreshed_more_often_than_they_must(load: float) -> None:
    found = tables(20, load, seed=4)
    delays = Simulated(found).run(1000)
    times = {n: percentile(sorted(delays[n][1:]), 0.5) / table.freshness for n, table in found.items()}
    spacing = max(SPACING[0], SPACING[1] * load / LEISURE)
    assert 0.95 * spacing <= min(times.values()) and max(times.values()) < spacing + 0.05
    busy = sum(len(of_table) * found[n].cost for n, of_table in delays.items()) / 1000
    assert busy < 1.2 * LEISURE


def test_what_reads_another_table_follows_it() -> None:
    """As often as that is refreshed, and not as late again."""
    queue: Deadlines[str] = Deadlines()
    costs = {"upstream": 0.25, "reader": 0.3, "other": 0.25, "another": 0.4, "tighter": 0.3}
    freshness = dict.fromkeys(costs, 60.0) | {"tighter": 30.0}
    now, ended, gaps, count, chance = 0.0, 0.0, list[float](), Counter[str](), Random(1)
    for key in ("upstream", "other", "another", "tighter"):
        queue.ask(key, freshness[key], now)
    while now < 2_000:
        key, now = turn(queue, now)
        if key is None:
            continue
        queue.begin(key, now)
        count[key] += 1
        if key == "reader":
            gaps.append(now - ended)
        else:
            queue.ask(key, freshness[key], now + 0.4)  # by the next micro-batch
        now += costs[key] * chance.uniform(0.7, 1.5)
        queue.end(key, now)
        if key == "upstream":
            ended = now
            queue.ask("reader", freshness["reader"], now, follows=True)
    between = 2_000 / count["upstream"]
    assert percentile(sorted(gaps), 0.9) < 0.1 * between
    assert count["reader"] <= 1.02 * count["upstream"]


@pytest.mark.parametrize("load", [0.3, 0.9, 1.3, 3.0, 20.0])
def test_what_is_allowed_fits(load: float) -> None:
    found = tables(100, load, seed=5)
    allowed = allow(found)
    used = sum(d.utilization / allowed.stretch.get(n, 1.0) for n, d in found.items())
    assert (
        used * SPACING[1] / allowed.spacing <= max(LEISURE, load) + 1e-9
        if load < CAPACITY
        else used <= CAPACITY + 1e-9
    )
    if allowed.stretch:
        kept = [d.freshness for n, d in found.items() if n not in allowed.stretch]
        assert max(kept, default=0) <= min(found[n].freshness for n in allowed.stretch)
        assert max(allowed.stretch.values()) <= max(MOST_STRETCH, 2 * load / CAPACITY)


def test_another_freshness_counts_at_once_and_what_is_forgotten_does_not_come() -> None:
    queue: Deadlines[str] = Deadlines()
    queue.ask("a", 100.0, 0.0)
    assert queue.next(0.0) == ("a", None)
    queue.begin("a", 0.0)
    queue.end("a", 1.0)
    assert queue.next(1.0) == (None, None)
    queue.ask("a", 100.0, 2.0)
    found, wait = queue.next(2.0)
    assert found is None and wait == pytest.approx(SPACING[0] * 100 - 2)
    queue.ask("a", 4.0, 3.0)
    assert queue.next(3.0) == ("a", None)
    queue.begin("a", 3.0)
    queue.end("a", 3.5)
    queue.ask("a", 0.0, 3.6)  # a flow whose tables declare none
    assert queue.next(9.0) == ("a", None)
    queue.retain(["a"])
    assert queue.next(9.0) == ("a", None)
    queue.retain([])
    assert queue.next(200.0) == (None, None)
