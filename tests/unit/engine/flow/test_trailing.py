"""Tables that trail their flow, without Spark."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import cast

import pytest

from headrace.engine.flow.trailing import Trailing
from headrace.engine.table.table import Table
from headrace.spec.model import TableName

HOUR = 3600.0


class World:
    def __init__(self) -> None:
        self.table = cast("Table", SimpleNamespace(name=TableName("dws", "hours")))
        self.caught_up, self.after = threading.Semaphore(0), threading.Semaphore(0)
        self.holds: threading.Event | None = None
        self.error: Exception | None = None
        self.tried = threading.Event()
        self.trailing = Trailing("flow", lambda: None, self._catch_up, self.after.release)

    def _catch_up(self, table: Table) -> None:
        assert table is self.table
        self.tried.set()
        if self.error is not None:
            raise self.error
        self.caught_up.release()
        if self.holds is not None:
            assert self.holds.wait(10)

    def caught(self, seconds: float = 10.0) -> bool:
        return self.caught_up.acquire(timeout=seconds) and self.after.acquire(timeout=10)


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    with closing(made.trailing):
        yield made


def test_a_table_catches_up_and_then_at_its_own_pace(world: World) -> None:
    world.trailing.follow(world.table, HOUR)
    assert world.caught()  # it never did before
    world.trailing.follow(world.table, 0.2)
    assert world.caught()
    world.trailing.follow(world.table, HOUR)
    assert not world.caught(0.3)


def test_what_was_planned_at_another_pace_is_forgotten(world: World) -> None:
    """A table that had a freshness of a day for a moment would else rest for hours."""
    world.trailing.follow(world.table, 0.0)
    assert world.caught()
    world.trailing.follow(world.table, HOUR)
    world.trailing.follow(world.table, 0.0)
    assert not world.caught(0.3)  # it waits already
    world.trailing.forget()
    world.trailing.follow(world.table, 0.0)
    assert world.caught()


def test_what_is_under_way_is_neither_forgotten_nor_done_twice(world: World) -> None:
    world.holds = threading.Event()
    world.trailing.follow(world.table, 0.0)
    assert world.caught_up.acquire(timeout=10)
    world.trailing.forget()
    world.trailing.follow(world.table, 0.0)
    assert not world.caught_up.acquire(timeout=0.3)
    world.holds.set()
    assert world.after.acquire(timeout=10)
    world.trailing.follow(world.table, 0.0)
    assert world.caught()


def test_a_failure_does_not_keep_it_from_the_next_time(world: World) -> None:
    world.error = RuntimeError("no disk")
    world.trailing.follow(world.table, 0.0)
    assert world.tried.wait(10)
    world.error = None
    for _ in range(100):
        world.trailing.follow(world.table, 0.0)
        if world.caught(0.1):
            return
    raise AssertionError("it never caught up")
