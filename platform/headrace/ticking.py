"""A look at something, again and again, in a thread of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

log = logging.getLogger(__name__)


class Ticking:
    """
    Args:
        name: of the thread.
        look: what is done at each tick. What it raises is logged, and the next tick comes nevertheless.
        seconds: between two looks.
        ready: what the thread does before the first one.
    """

    def __init__(
        self, name: str, look: Callable[[], None], seconds: float, *, ready: Callable[[], None] = lambda: None
    ) -> None:
        self._look, self._seconds, self._ready = look, seconds, ready
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def stopping(self) -> bool:
        """Whether nothing more shall begin."""
        return self._stop.is_set()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Wait for what is under way; nothing follows."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        self._ready()
        while not self._stop.wait(self._seconds):
            try:
                self._look()
            except Exception:
                log.exception("%s", self._thread.name)
