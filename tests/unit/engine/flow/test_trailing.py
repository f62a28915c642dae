"""Tables that trail their flow, without Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
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
        self.catch: Callable[[Table], None] | None = None
        self.broken: Exception | None = None
        self.trailing = Trailing("flow", lambda: None, self._catch_up, self._follow_up)

    def _follow_up(self) -> None:
        self.after.release()
        if self.broken is not None:
            raise self.broken

    def _catch_up(self, table: Table) -> None:
        if self.catch is not None:
            self.catch(table)
            return
        assert table is self.table
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
    world.trailing.follow(world.table, HOUR)
    assert not world.caught(0.3)
    world.trailing.follow(world.table, 0.2)  # another freshness counts at once
    assert world.caught()


def test_what_is_not_retained_does_not_catch_up(world: World) -> None:
    world.trailing.follow(world.table, 0.0)
    assert world.caught()
    world.trailing.follow(world.table, 2.0)
    world.trailing.retain([])
    assert not world.caught(1.0)


def test_a_table_that_waits_catches_up_as_it_is_declared_now(world: World) -> None:
    world.trailing.follow(world.table, 2.0)
    assert world.caught()
    world.trailing.follow(world.table, 2.0)
    world.table = cast("Table", SimpleNamespace(name=world.table.name))
    world.trailing.retain([world.table])
    assert world.caught()


def test_changes_that_come_while_it_catches_up_follow_afterwards(world: World) -> None:
    world.holds = threading.Event()
    world.trailing.follow(world.table, 0.0)
    assert world.caught_up.acquire(timeout=10)
    world.trailing.follow(world.table, 0.0)
    assert not world.caught_up.acquire(timeout=0.3)
    world.holds.set()
    assert world.after.acquire(timeout=10)
    assert world.caught()


def test_the_tightest_of_those_that_wait_is_next(world: World) -> None:
    world.holds = threading.Event()
    world.trailing.follow(world.table, 0.0)
    assert world.caught_up.acquire(timeout=10)
    order: list[str] = []
    loose, tight = (cast("Table", SimpleNamespace(name=TableName("dws", n))) for n in ("loose", "tight"))
    world.catch = lambda table: order.append(table.name.table)
    world.trailing.follow(loose, 60.0)
    world.trailing.follow(tight, 10.0)
    world.holds.set()
    for _ in range(3):
        assert world.after.acquire(timeout=10)
    assert order == ["tight", "loose"]


def test_a_failure_does_not_keep_it_from_the_next_time(world: World) -> None:
    world.error = RuntimeError("no disk")
    world.trailing.follow(world.table, 0.0)
    assert world.after.acquire(timeout=10)
    world.error = None
    world.trailing.follow(world.table, 0.0)
    assert world.caught()


def test_a_failure_afterwards_does_not_keep_others_from_their_turn(world: World) -> None:
    """Of one of its tables that was dropped meanwhile, say."""
    world.broken = KeyError("dws.gone")
    world.trailing.follow(world.table, 0.0)
    assert world.caught()
    world.trailing.follow(world.table, 0.0)
    assert world.caught()
