"""Locks with a rank: who needs several takes them in that order, so no two threads wait for each other."""

from __future__ import annotations

import logging
import threading
from enum import IntEnum

log = logging.getLogger(__name__)


class Rank(IntEnum):
    """The order, first to last. `docs/architecture/micro_batch.md` says who holds them."""

    APPLY = 1
    DECLARE = 2
    ARRANGE = 3
    OFFLINE = 4
    FLOW = 5
    WRITE = 6
    COMPACT = 7


class _Held(threading.local):
    def __init__(self) -> None:
        self.locks: list[OrderedLock] = []


_held = _Held()


class OrderedLock:
    """A reentrant lock that says in the log, with the place, when it is taken after one of a later rank.

    Args:
        what: the object that it guards, for the message.
    """

    def __init__(self, rank: Rank, what: object) -> None:
        self.rank = rank
        self._what = what
        self._lock = threading.RLock()

    def __str__(self) -> str:
        return f"{self.rank.name} of {self._what}"

    def acquire(self, blocking: bool = True) -> bool:
        """Returns whether the lock is held now: not where another thread has it and `blocking` is False."""
        if blocking and self not in _held.locks and (later := [h for h in _held.locks if self._before(h)]):
            log.error(
                "lock order: %s is taken while %s is held", self, ", ".join(map(str, later)), stack_info=True
            )
        if not self._lock.acquire(blocking):
            return False
        _held.locks.append(self)
        return True

    def release(self) -> None:
        """Raises RuntimeError where this thread does not hold it."""
        self._lock.release()
        last = len(_held.locks) - 1 - _held.locks[::-1].index(self)
        del _held.locks[last]

    def _before(self, held: OrderedLock) -> bool:
        # Several flows are paused together by one thread at a time, which holds ARRANGE or proves a cut.
        return self.rank < held.rank or (self.rank == held.rank and self.rank != Rank.FLOW)

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()
