"""Rows of snapshots in memory: within the budget, and what is in use stays."""

from __future__ import annotations

import gc

import pyarrow as pa
import pytest

from headrace.store.live.resident import IDLE_SECONDS, Resident

ROWS = pa.table({"n": pa.array(range(100), pa.int64())})
SIZE = ROWS.nbytes


class Owner:
    pass


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def resident(clock: Clock) -> Resident:
    return Resident(2 * SIZE, clock=clock)


def test_what_is_in_use_keeps_its_room(resident: Resident, clock: Clock) -> None:
    first, second, third = Owner(), Owner(), Owner()
    assert resident.put(first, ROWS) and resident.put(second, ROWS)
    assert not resident.admits(SIZE) and not resident.put(third, ROWS)
    assert resident.get(third) is None and resident.bytes == 2 * SIZE
    clock.now = IDLE_SECONDS
    assert resident.get(second) is ROWS
    clock.now += 1
    assert resident.admits(SIZE) and resident.put(third, ROWS)
    assert resident.get(first) is None and resident.get(second) is ROWS and resident.get(third) is ROWS


def test_only_as_much_goes_as_is_needed_and_the_longest_idle_first(resident: Resident, clock: Clock) -> None:
    first, second, third = Owner(), Owner(), Owner()
    resident.put(first, ROWS)
    clock.now = 1
    resident.put(second, ROWS)
    clock.now = 2 * IDLE_SECONDS + 1
    assert resident.put(third, ROWS.slice(0, 50))
    assert resident.get(first) is None and resident.get(second) is ROWS


def test_what_never_fits_is_not_held(resident: Resident) -> None:
    owner = Owner()
    assert not resident.put(owner, pa.concat_tables([ROWS] * 3))
    assert resident.bytes == 0


def test_rows_go_with_their_owner_and_when_they_are_taken(resident: Resident) -> None:
    owner, other = Owner(), Owner()
    resident.put(owner, ROWS)
    resident.put(other, ROWS)
    assert resident.take(other) is ROWS and resident.take(other) is None
    del owner
    gc.collect()
    assert resident.bytes == 0
