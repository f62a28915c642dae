"""How many comparisons go on at the same time."""

from __future__ import annotations

import threading

import pytest

from headrace.engine.proof.room import Room


@pytest.mark.parametrize(("busy", "together"), [(False, 2), (True, 1)])
def test_two_at_a_time_and_one_where_the_streams_are_busy(busy: bool, together: int) -> None:
    room = Room(2, lambda: busy)
    inside, most, leaves = 0, 0, threading.Semaphore(0)
    came = threading.Semaphore(0)

    def work() -> None:
        nonlocal inside, most
        with room:
            inside += 1
            most = max(most, inside)
            came.release()
            leaves.acquire()
            inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(together):
        assert came.acquire(timeout=10)
    assert not came.acquire(timeout=0.2)  # no other comes in
    leaves.release(4)
    for thread in threads:
        thread.join(10)
    assert (most, inside) == (together, 0)


def test_who_waits_looks_again_whether_the_streams_are_busy() -> None:
    states = iter([True, True, False])
    room = Room(2, lambda: next(states, False))
    with room:
        entered = threading.Event()

        def work() -> None:
            with room:
                entered.set()

        thread = threading.Thread(target=work)
        thread.start()
        assert entered.wait(10)
    thread.join(10)
