"""At which versions several tables stand at one cut, without Spark."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from headrace.engine.flow.common_cuts import REMEMBERED, STEPS, CommonCuts, Standing
from headrace.spec.model import TableName

A, B = TableName("stg", "a"), TableName("stg", "b")
STEADY = TableName("dwd", "steady")
SLOW, OTHER, LAST = TableName("dws", "slow"), TableName("dws", "other"), TableName("dws", "last")
ALL = (A, B, STEADY, SLOW, OTHER, LAST)
READS = {A: (), B: (), STEADY: (A,), SLOW: (A, B), OTHER: (STEADY, B), LAST: (SLOW, A)}


class World:
    """A flow: what its tables hold tells of which versions of the captured ones it is made."""

    def __init__(self) -> None:
        self.now = 0.0
        self.cuts = CommonCuts(lambda: self.now)
        self.versions = dict.fromkeys(ALL, 0)
        self.reached = {name: dict.fromkeys(READS[name], 0) for name in ALL}
        self.holds: dict[TableName, list[object]] = {}
        for name in ALL:
            self.holds[name] = [self._made(name)]
        self.steps: list[dict[TableName, object]] = []
        self._stepped()

    def step(self, *changed: TableName) -> None:
        self.now += 1
        for name in changed:
            self.versions[name] += 1
            self.holds[name].append(self.versions[name])
        self._refresh(STEADY)
        self._stepped()

    def catch_up(self, name: TableName) -> None:
        self._refresh(name)
        self.cuts.trailed(name, self.standing(name))

    def correct(self, name: TableName) -> None:
        """A backfill that finds the rows as they should be, and writes them."""
        self.versions[name] += 1
        self.holds[name].append(self.holds[name][-1])

    def newest(self, *names: TableName) -> dict[TableName, int] | None:
        return self.cuts.newest(names, 60)

    def standing(self, name: TableName) -> Standing:
        return Standing(self.versions[name], dict(self.reached[name]))

    def is_one_cut(self, found: Mapping[TableName, int]) -> bool:
        held = {name: self.holds[name][version] for name, version in found.items()}
        return any(all(step[name] == rows for name, rows in held.items()) for step in self.steps)

    def _stepped(self) -> None:
        self.steps.append({name: self._whole(name) for name in ALL})
        self.cuts.stepped((name, self.standing(name)) for name in ALL)

    def _refresh(self, name: TableName) -> None:
        self.reached[name] = {upstream: self.versions[upstream] for upstream in READS[name]}
        if (made := self._made(name)) != self.holds[name][-1]:
            self.versions[name] += 1
            self.holds[name].append(made)

    def _made(self, name: TableName) -> object:
        """What its query gives of what its upstreams hold; two versions of a give one row of `STEADY`."""
        if not READS[name]:
            return 0
        read = tuple(self.holds[upstream][-1] for upstream in READS[name])
        return read[0] // 2 if name == STEADY else read

    def _whole(self, name: TableName) -> object:
        """What it holds where every table is at its upstreams' newest versions."""
        if not READS[name]:
            return self.holds[name][-1]
        read = tuple(self._whole(upstream) for upstream in READS[name])
        return read[0] // 2 if name == STEADY else read


@pytest.fixture
def world() -> World:
    return World()


def test_tables_that_keep_step_are_read_at_their_newest(world: World) -> None:
    world.step(A)
    world.step(A, B)
    assert world.newest(A, B, STEADY) == {A: 2, B: 1, STEADY: 1}


def test_one_that_trails_takes_the_others_back_to_where_it_stands(world: World) -> None:
    world.step(A)
    world.catch_up(SLOW)
    world.step(A)
    world.step(A)
    assert world.newest(A, SLOW) == {A: 1, SLOW: 1}
    world.catch_up(SLOW)
    assert world.newest(A, SLOW) == {A: 3, SLOW: 2}


def test_what_changes_nothing_in_a_table_is_covered_by_it(world: World) -> None:
    world.step(A)
    assert world.newest(A, STEADY) == {A: 1, STEADY: 0}


def test_two_that_never_stood_together_have_no_cut(world: World) -> None:
    world.step(A, B)
    world.catch_up(SLOW)
    world.step(A, B)
    world.catch_up(OTHER)
    world.step(A, B)
    assert world.newest(SLOW, OTHER) == {SLOW: 0, OTHER: 0}
    world.now += 57  # the first step ended with the second one
    assert world.newest(SLOW, OTHER) is not None
    world.now += 1
    assert world.newest(SLOW, OTHER) is None
    world.catch_up(SLOW)
    world.catch_up(OTHER)
    assert world.newest(SLOW, OTHER) == {SLOW: 2, OTHER: 2}


@pytest.mark.parametrize("steps", [REMEMBERED - 1, REMEMBERED, STEPS])
def test_what_changes_often_is_forgotten(steps: int) -> None:
    cuts = CommonCuts()
    cuts.stepped([(A, Standing(0, {})), (SLOW, Standing(0, {A: 0}))])
    for version in range(1, steps + 1):
        cuts.stepped([(A, Standing(version, {})), (SLOW, Standing(0, {A: 0}))])
    assert cuts.newest([A, SLOW], 60) == ({A: 0, SLOW: 0} if steps < REMEMBERED else None)


def test_one_that_trails_another_stands_where_that_one_does(world: World) -> None:
    world.step(A)
    world.catch_up(SLOW)
    world.step(B)
    world.catch_up(LAST)
    assert world.newest(LAST, SLOW, B) == {LAST: 1, SLOW: 1, B: 0}


def test_corrected_rows_are_read_from_the_next_step_on(world: World) -> None:
    world.step(A)
    world.correct(STEADY)
    assert world.newest(A, STEADY) == {A: 1, STEADY: 0}
    world.step()
    assert world.newest(A, STEADY) == {A: 1, STEADY: 1}


def test_a_table_that_rests_is_read_as_it_stands() -> None:
    """Its consumers have what there is of it."""
    cuts = CommonCuts()
    for version in range(3):
        cuts.stepped(
            [(A, Standing(7, {})), (B, Standing(version, {})), (SLOW, Standing(version, {A: 7, B: version}))]
        )
    assert cuts.newest([A, B, SLOW], 60) == {A: 7, B: 2, SLOW: 2}


def test_a_table_that_is_no_more_is_forgotten() -> None:
    cuts = CommonCuts()
    cuts.stepped([(A, Standing(7, {})), (B, Standing(1, {}))])
    cuts.trailed(B, Standing(1, {A: 7}))
    cuts.stepped([(A, Standing(7, {}))])
    assert cuts.newest([A], 60) == {A: 7} and cuts.newest([A, B], 60) is None


@pytest.mark.parametrize("seed", range(40))
def test_random_steps_give_one_cut(seed: int) -> None:
    chance, world, found = random.Random(seed), World(), 0
    for _ in range(60):
        world.step(*(name for name in (A, B) if chance.random() < 0.4))
        for name in (SLOW, OTHER, LAST):
            if chance.random() < 0.3:
                world.catch_up(name)
        if chance.random() < 0.1:
            world.correct(chance.choice((STEADY, SLOW)))
        names = chance.sample(ALL, chance.randint(2, 4))
        if (cut := world.newest(*names)) is not None:
            found += 1
            assert cut.keys() == set(names) and world.is_one_cut(cut), (cut, world.versions)
    assert found > 30
