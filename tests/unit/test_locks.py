"""Locks that are taken out of order are told in the log, with the place; in order, nothing is."""

from __future__ import annotations

import threading

import pytest

from headrace.locks import OrderedLock, Rank


@pytest.fixture(autouse=True)
def lock_order() -> None:
    """Here locks are taken out of order on purpose."""


WRITE, COMPACT = OrderedLock(Rank.WRITE, "dwd.a"), OrderedLock(Rank.COMPACT, "dwd.a")


def test_the_order_of_ranks_is_right_again_and_again(caplog: pytest.LogCaptureFixture) -> None:
    with WRITE, COMPACT, WRITE, COMPACT:
        pass
    with COMPACT:
        pass
    with OrderedLock(Rank.FLOW, "one"), OrderedLock(Rank.FLOW, "two"), WRITE:
        pass
    assert not caplog.records


def test_a_lock_after_one_of_a_later_rank_is_told_with_its_place(caplog: pytest.LogCaptureFixture) -> None:
    with COMPACT, WRITE:
        pass
    [record] = caplog.records
    assert record.getMessage() == "lock order: WRITE of dwd.a is taken while COMPACT of dwd.a is held"
    assert record.stack_info is not None and "test_locks.py" in record.stack_info


def test_two_tables_are_not_written_by_one_thread_at_once(caplog: pytest.LogCaptureFixture) -> None:
    with WRITE, OrderedLock(Rank.WRITE, "dwd.b"):
        pass
    assert [r.getMessage() for r in caplog.records] == [
        "lock order: WRITE of dwd.b is taken while WRITE of dwd.a is held"
    ]


def test_who_does_not_wait_may_look_in_any_order(caplog: pytest.LogCaptureFixture) -> None:
    with COMPACT:
        assert WRITE.acquire(blocking=False)
        other = threading.Thread(target=lambda: found.append(WRITE.acquire(blocking=False)))
        found: list[bool] = []
        other.start()
        other.join()
        WRITE.release()
    assert found == [False] and not caplog.records
