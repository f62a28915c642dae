"""A look at something, again and again, in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable

from headrace.engine.spark.session import use_pool
from headrace.engine.spark.sessions import Sessions

TICK = 0.5
"""Seconds between two looks."""


class Ticking:
    """
    Args:
        name: of the thread.
        look: what is done at each tick; it raises nothing.
    """

    def __init__(self, name: str, sessions: Sessions, look: Callable[[], None]) -> None:
        self._sessions, self._look = sessions, look
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Wait for what is under way; nothing follows."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        use_pool(self._sessions.batch, "batch")
        while not self._stop.wait(TICK):
            self._look()
