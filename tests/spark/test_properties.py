"""Random tables and random changes: after every step each table equals its SQL in batch and another engine.

`HEADRACE_PROPERTY_CYCLES` and `HEADRACE_PROPERTY_SEEDS` size the run per family of query shapes (the full run
is 100 and 5), `HEADRACE_PROPERTY_SEED` plays one printed case again and no other, and
`HEADRACE_PROPERTY_SHRINK` is the number of seconds spent to make a failure small. A failure is printed as a
file of `tests/scenarios`.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from datetime import date
from random import Random
from typing import Any

import pytest
from cases import Case, random_case, steps
from comparison import apart
from duck import Duck
from harness import Harness
from scenario import Play, Scenario, Step
from shapes import FAMILIES

CYCLES = int(os.environ.get("HEADRACE_PROPERTY_CYCLES", "2"))
SEEDS = int(os.environ.get("HEADRACE_PROPERTY_SEEDS", "1"))
SEED = os.environ.get("HEADRACE_PROPERTY_SEED")
"""`family-seed-cycles`, as each case prints it."""

BATCH_EVERY = 4
"""Steps between two comparisons with the SQL in batch, which Spark computes: most of what a step costs.
DuckDB computes the same at every step, unless a table stands behind."""

LONG_CYCLES = 20
LONG_FAMILIES = 1
"""What the long run plays besides: so many families a day, other ones the next day."""
SHRINK = float(os.environ.get("HEADRACE_PROPERTY_SHRINK", "0"))

FULL_RUN = CYCLES * SEEDS > 50

Warehouse = Callable[[Scenario], Harness]


class Differs(AssertionError):
    """A table does not hold what its SQL gives."""

    def __init__(self, table: str, step: int, what: str) -> None:
        super().__init__(f"after step {step}: {table} {what}")
        self.table = table
        self.step = step


def check(play: Play, duck: Duck, case: Case, step: int, *, last: bool) -> None:
    """Every table = DuckDB over the source's rows, and now and then = its SQL in batch at its frontier."""
    warehouse = play.warehouse
    strategies = {name: warehouse.table(name).plan.strategy.name for name in case.tables}
    if last or play.lagging or step % BATCH_EVERY == BATCH_EVERY - 1:
        for name, what in warehouse.differing(proof=last):
            raise Differs(name, step, f"({strategies[name]}) is not its batch result: {what}")
    if play.lagging:
        return
    independent = duck.compute(warehouse.source.rows)
    for name in (f"stg.{source}" for source in case.sources):
        missing, extra = apart(Counter(warehouse.rows(name)), independent[name])
        if missing or extra:
            raise Differs(name, step, f"is not what its source holds: missing {missing}, extra {extra}")
    for name in case.tables:
        dropped = case.uncompared.get(name, ())
        held = _without(Counter(warehouse.rows(name)), dropped)
        missing, extra = apart(held, _without(independent[name], dropped))
        if missing or extra:
            what = f"is not what DuckDB computes: missing {missing}, extra {extra}"
            raise Differs(name, step, f"({strategies[name]}) {what}")


def _without(rows: Counter[tuple[Any, ...]], positions: Sequence[int]) -> Counter[tuple[Any, ...]]:
    if not positions:
        return rows
    kept: Counter[tuple[Any, ...]] = Counter()
    for row, count in rows.items():
        kept[tuple(v for i, v in enumerate(row) if i not in positions)] += count
    return kept


def play_through(make: Warehouse, case: Case, scenario: Scenario) -> None:
    """Raises Differs at the first step after which a table is wrong."""
    warehouse = make(scenario)
    play, duck = Play(warehouse, scenario), Duck(scenario.sources, scenario.tables)
    try:
        for number, step in enumerate(scenario.steps):
            play.run(step)
            check(play, duck, case, number, last=number == len(scenario.steps) - 1)
    finally:
        duck.close()


def run_case(make: Warehouse, family: str, seed: int, cycles: int) -> None:
    chance = Random(seed)
    case = random_case(chance, family)
    about = f"HEADRACE_PROPERTY_SEED={family}-{seed}-{cycles}"
    print(about)
    scenario = Scenario(case.sources, case.tables, tuple(steps(chance, case, cycles)), about)
    try:
        play_through(make, case, scenario)
    except Exception as error:
        failed = getattr(error, "step", len(scenario.steps) - 1)
        smaller = shrink(make, case, replace(scenario, steps=scenario.steps[: failed + 1]), error)
        raise AssertionError(f"{error}\n\n{about}\n\n{smaller.text()}") from error


def shrink(make: Warehouse, case: Case, scenario: Scenario, error: Exception) -> Scenario:
    """Leave out tables, steps and changes while the failure stays of the same kind and time allows."""
    until = time.monotonic() + SHRINK

    def fails(smaller: Scenario) -> bool:
        try:
            play_through(make, replace(case, tables=smaller.tables), smaller)
        except Exception as found:
            return type(found) is type(error)
        return False

    def candidates(now: Scenario) -> list[Scenario]:
        read = " ".join(t.sql for t in now.tables.values())
        found = []
        for name in reversed(now.tables):
            if f"{name} " not in f"{read} ".replace(")", " "):
                found.append(replace(now, tables={n: t for n, t in now.tables.items() if n != name}))
        for i in range(len(now.steps)):
            found.append(replace(now, steps=now.steps[:i] + now.steps[i + 1 :]))
        for i, step in enumerate(now.steps):
            plain = Step(changes=step.changes)
            options = [f for f in fields(Step) if f.name not in ("changes", "expect")]
            singly = [replace(step, **{f.name: f.default}) for f in options]
            for fewer in (plain, *singly):
                if step != fewer:
                    found.append(replace(now, steps=(*now.steps[:i], fewer, *now.steps[i + 1 :])))
        for i, step in enumerate(now.steps):
            size = len(step.changes)
            for part in {max(size // 2, 1), 1} if size else ():
                for at in range(0, size, part):
                    fewer = replace(step, changes=step.changes[:at] + step.changes[at + part :])
                    found.append(replace(now, steps=(*now.steps[:i], fewer, *now.steps[i + 1 :])))
        return found

    shrunk = True
    while shrunk:
        shrunk = False
        for smaller in candidates(scenario):
            if time.monotonic() > until:
                return scenario
            mentioned = {n for s in smaller.steps for n in (*s.compact, *(s.backfill or ())[:1])}
            if smaller.tables and smaller.steps and mentioned <= set(smaller.tables) and fails(smaller):
                scenario, shrunk = smaller, True
                break
    return scenario


@pytest.fixture
def make(harness: Callable[..., Harness]) -> Warehouse:
    def warehouse(scenario: Scenario) -> Harness:
        return harness(scenario.layers(), source=scenario.source(), batch_settings=FULL_RUN)

    return warehouse


@pytest.mark.timeout(0 if FULL_RUN else 900)
@pytest.mark.parametrize("family", [SEED.split("-")[0]] if SEED else FAMILIES)
def test_tables_equal_batch_and_another_engine(make: Warehouse, family: str) -> None:
    if SEED:
        _, seed, cycles = SEED.split("-")
        run_case(make, family, int(seed), int(cycles))
        return
    for number in of_the_day(SEEDS):
        run_case(make, family, number, CYCLES)


@pytest.mark.long
@pytest.mark.skipif(bool(SEED), reason="one case is played again")
@pytest.mark.parametrize("number", range(LONG_FAMILIES))
def test_a_family_of_the_day_for_longer(make: Warehouse, number: int) -> None:
    """All families had their turn after some days. All at once would take too long."""
    families = list(FAMILIES)
    family = families[(date.today().toordinal() * LONG_FAMILIES + number) % len(families)]
    run_case(make, family, of_the_day(SEEDS + 1)[-1], LONG_CYCLES)


def of_the_day(count: int) -> list[int]:
    """Other seeds each day, so that the ordinary run gets around; a failure says which it was."""
    chance = Random(date.today().toordinal())
    return [chance.randrange(1, 2**31) for _ in range(count)]


@pytest.mark.long
@pytest.mark.skipif(bool(SEED), reason="one case is played again")
def test_large_changes_too(make: Warehouse) -> None:
    """The same where every change is too large for the driver."""

    def small(scenario: Scenario) -> Harness:
        warehouse = make(scenario)
        warehouse.limit(small=-1, changed=-1)
        return warehouse

    run_case(small, "outer", 7, 1)
