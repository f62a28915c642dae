"""How much goes on at the same time beside streams that must not feel it."""

from __future__ import annotations

import threading
from collections.abc import Callable

ASKED = 0.5
"""Seconds between two looks at whether the streams are busy, while somebody waits."""


class Room:
    """A context manager that several threads enter: so many at a time, and one where the streams are busy.

    Args:
        width: at most.
        busy: whether they are now.
    """

    def __init__(self, width: int, busy: Callable[[], bool]) -> None:
        self._width, self._busy = width, busy
        self._inside = 0
        self._changed = threading.Condition()

    def __enter__(self) -> None:
        with self._changed:
            while self._inside >= (1 if self._busy() else self._width):
                self._changed.wait(ASKED)
            self._inside += 1

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        with self._changed:
            self._inside -= 1
            self._changed.notify_all()
