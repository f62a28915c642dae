"""How long work says where it is and learns that it is no longer wanted."""

from __future__ import annotations

import threading
from collections.abc import Callable

from headrace.errors import Cancelled


class Progress:
    """Progress of one statement. Thread-safe; a plain instance is silent and never cancelled.

    Args:
        listener: called with (message, done, total) at every report.
    """

    def __init__(self, listener: Callable[[str, int | None, int | None], None] | None = None) -> None:
        self._listener = listener
        self._cancelled = threading.Event()
        self._callbacks: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    def report(self, message: str, done: int | None = None, total: int | None = None) -> None:
        """Say what is being done. Raises Cancelled where the statement was cancelled."""
        self.raise_if_cancelled()
        if self._listener is not None:
            self._listener(message, done, total)

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """Register what stops the work now under way (e.g. cancelling a Spark job group)."""
        with self._lock:
            self._callbacks.append(callback)
        if self._cancelled.is_set():
            callback()

    def cancel(self) -> None:
        """Ask the work to stop; returns at once."""
        self._cancelled.set()
        with self._lock:
            callbacks = list(self._callbacks)
        for callback in callbacks:
            callback()

    @property
    def cancelled(self) -> bool:
        return self._cancelled.is_set()

    def raise_if_cancelled(self) -> None:
        """Raises Cancelled where the statement was cancelled."""
        if self._cancelled.is_set():
            raise Cancelled("the statement was cancelled; nothing of it was committed")
