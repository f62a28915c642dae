"""The tables of a flow that do not keep step with it: each catches up by itself, at its own pace."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from headrace.engine.table.table import Table
from headrace.spec.model import TableName


class Trailing:
    """Of one flow; one table at a time. Thread-safe.

    Args:
        flow: its name.
        ready: called by the thread that catches up, before its first table.
        catch_up: brings a table forward.
        after: called when one was.
    """

    def __init__(
        self,
        flow: str,
        ready: Callable[[], None],
        catch_up: Callable[[Table], None],
        after: Callable[[], None],
    ) -> None:
        self._pool = ThreadPoolExecutor(1, f"trailing-{flow}", initializer=ready)
        self._catch_up = catch_up
        self._after = after
        self._begun: dict[TableName, float] = {}
        self._waiting: dict[TableName, threading.Timer] = {}
        self._underway: set[TableName] = set()

    def follow(self, table: Table, between: float) -> None:
        """Let the table catch up, unless it is about to.

        Args:
            between: seconds since it last began, at least.
        """
        if table.name in self._underway:
            return
        self._underway.add(table.name)
        # The clock may begin at the machine's start: a table that never began has nothing to wait for.
        begun = self._begun.get(table.name)
        pause = 0.0 if begun is None else begun + between - time.monotonic()
        timer = threading.Timer(max(0.0, pause), self._start, (table,))
        timer.daemon = True
        self._waiting[table.name] = timer
        timer.start()

    def forget(self) -> None:
        """Give up what waits for its time: it was planned by another freshness, of a day maybe."""
        for name in list(self._waiting):
            timer = self._waiting.pop(name, None)
            if timer is not None:  # else it starts at this moment
                timer.cancel()
                self._underway.discard(name)

    def close(self) -> None:
        """Wait for the table that is under way; nothing follows."""
        self.forget()
        self._pool.shutdown(wait=True)

    def _start(self, table: Table) -> None:
        if self._waiting.pop(table.name, None) is None:
            return  # forgotten
        with suppress(RuntimeError):  # closed meanwhile
            self._pool.submit(self._run, table)

    def _run(self, table: Table) -> None:
        self._begun[table.name] = time.monotonic()
        try:
            self._catch_up(table)
        finally:
            self._underway.discard(table.name)
        self._after()
