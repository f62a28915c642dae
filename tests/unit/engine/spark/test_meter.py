"""What work costs: all that is spent is divided among those who worked meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest

from headrace.engine.spark.meter import SHARED, Charged, Cost, Meter


class Clock:
    """Processor time that a test lets pass."""

    def __init__(self) -> None:
        self.spent = 100.0

    def __call__(self) -> float:
        return self.spent


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def meter(clock: Clock) -> Meter:
    return Meter(clock)


def beside(work: Callable[[], None]) -> None:
    """In another thread, until it is done."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def cores(meter: Meter) -> dict[tuple[str, str], float]:
    return {tuple(charged): cost.core_seconds for charged, cost in meter.take().items()}


def test_one_alone_is_charged_all_of_it(meter: Meter, clock: Clock) -> None:
    clock.spent += 7  # before
    with meter.of("dws.t", "stream") as unit:
        clock.spent += 2
        unit.changes = 30
    clock.spent += 5  # after
    [(charged, cost)] = meter.take().items()
    assert charged == Charged("dws.t", "stream")
    assert (cost.core_seconds, cost.runs, cost.changes) == (2, 1, 30)
    assert cost.seconds >= 0
    assert meter.take() == {}


def test_who_works_at_the_same_time_shares(meter: Meter, clock: Clock) -> None:
    def other() -> None:
        with meter.of("dws.b", "verify"):
            clock.spent += 4

    with meter.of("dws.a", "stream"):
        clock.spent += 1
        beside(other)
        clock.spent += 2
    assert cores(meter) == {("dws.a", "stream"): 1 + 4 / 2 + 2, ("dws.b", "verify"): 4 / 2}


def test_work_inside_other_work_is_charged_by_itself(meter: Meter, clock: Clock) -> None:
    with meter.of("dws.a", "stream"):
        clock.spent += 1
        with meter.of("dws.b", "compaction"):
            clock.spent += 3
        clock.spent += 1
    assert cores(meter) == {("dws.a", "stream"): 2, ("dws.b", "compaction"): 3}


def test_what_a_flow_does_for_all_is_what_is_left(meter: Meter, clock: Clock) -> None:
    def table() -> None:
        with meter.of("stg.a", "stream"):
            clock.spent += 4

    with meter.of(SHARED, "stream"):
        clock.spent += 1
        beside(table)
    assert cores(meter) == {(SHARED, "stream"): 1, ("stg.a", "stream"): 4}


def test_work_that_fails_and_work_that_goes_on_are_charged(meter: Meter, clock: Clock) -> None:
    with pytest.raises(ValueError, match="no"), meter.of("dws.a", "backfill"):
        clock.spent += 1
        assert cores(meter) == {("dws.a", "backfill"): 1}
        clock.spent += 1
        raise ValueError("no")
    assert cores(meter) == {("dws.a", "backfill"): 1}


def test_what_was_taken_counts_in_the_total(meter: Meter, clock: Clock) -> None:
    for work in range(3):
        with meter.of("dws.a", "stream"):
            clock.spent += 1
        if work < 2:
            meter.take()
    with meter.of("dws.b", "verify"):
        clock.spent += 5
    total = {charged.table: (cost.core_seconds, cost.runs) for charged, cost in meter.total().items()}
    assert total == {"dws.a": (3, 3), "dws.b": (5, 1)}


def test_costs_add_up() -> None:
    assert Cost(1, 2, 3, 4) + Cost(10, 20, 30, 40) == Cost(11, 22, 33, 44)


def test_another_process_is_metered_too() -> None:
    """What ends is no error: this process is about to end with it."""
    meter = Meter()
    burn = "import time; end = time.process_time() + 0.5\nwhile time.process_time() < end: pass\ninput()"
    with subprocess.Popen([sys.executable, "-c", burn], stdin=subprocess.PIPE) as other:
        meter.follow(other.pid)
        until = time.monotonic() + 30
        with meter.of("dws.a", "stream"):
            while meter.spent() - time.process_time() < 0.4 and time.monotonic() < until:
                os.sched_yield()
        other.communicate(b"\n")
    assert cores(meter)["dws.a", "stream"] >= 0.4
    with meter.of("dws.a", "stream"):
        pass
    assert cores(meter)["dws.a", "stream"] == 0
