"""Work that goes on beside everything else, until it is told to stop."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from headrace.errors import TerminalError


class Background(ABC):
    """Work in a thread of its own. A context manager: leaving it waits, and raises what went wrong inside.

    Args:
        name: of the thread.
        what: says in an error what has failed.
    """

    def __init__(self, name: str, what: str) -> None:
        self._what = what
        self._error: Exception | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @abstractmethod
    def _work(self) -> None:
        """Go on until `_stopping` is set."""

    def raise_if_failed(self) -> None:
        """Raises TerminalError with what the work has failed with."""
        if self._error is not None:
            raise TerminalError(f"{self._what} failed: {self._error}") from self._error

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join()
        if kind is None:
            self.raise_if_failed()

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:
            self._error = error
