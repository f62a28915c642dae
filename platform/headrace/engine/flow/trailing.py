"""The tables of a flow that do not keep step with it: each catches up by itself, at its own pace."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial

from headrace.engine.table.table import Table
from headrace.scheduling.deadlines import Deadlines
from headrace.spec.model import TableName

log = logging.getLogger(__name__)


class Trailing:
    """Of one flow; one table at a time, the one with the earliest deadline. Thread-safe.

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
        self._flow = flow
        self._ready = ready
        self._catch_up = catch_up
        self._after = after
        self._changed = threading.Condition()
        self._deadlines: Deadlines[TableName] = Deadlines()
        self._tables: dict[TableName, Table] = {}
        self._closed = False
        self._thread: threading.Thread | None = None

    def follow(self, table: Table, freshness: float, *, reads_trailing: bool = False) -> None:
        """Let the table catch up, as soon as its turn is.

        Args:
            freshness: seconds within which a change should be in it.
            reads_trailing: whether it reads another one that trails.
        """
        with self._changed:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"trailing-{self._flow}", daemon=True)
                self._thread.start()
            self._tables[table.name] = table
            self._deadlines.ask(table.name, freshness, time.monotonic(), follows=reads_trailing)
            self._changed.notify()

    def stretch(self, table: TableName) -> float:
        """How many times later than declared the table may be now: the machine is too small for all."""
        with self._changed:
            return self._deadlines.stretch(table)

    def retain(self, tables: Iterable[Table]) -> None:
        """Forget all tables but these, as they are declared now."""
        with self._changed:
            self._tables = {table.name: table for table in tables}
            self._deadlines.retain(self._tables)

    def close(self) -> None:
        """Wait for the table that is under way; nothing follows."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        self._ready()
        while (table := self._next()) is not None:
            self._logged(table, partial(self._catch_up, table))
            with self._changed:
                self._deadlines.end(table.name, time.monotonic())
            self._logged(table, self._after)

    @staticmethod
    def _logged(table: Table, work: Callable[[], None]) -> None:
        """Do the work. The thread is every trailing table's, so whatever fails, it goes on."""
        try:
            work()
        except Exception:
            log.exception("%s", table.name)

    def _next(self) -> Table | None:
        """Wait for the next table, which begins; None at the end."""
        with self._changed:
            while not self._closed:
                now = time.monotonic()
                name, wait = self._deadlines.next(now)
                if name is not None:
                    self._deadlines.begin(name, now)
                    return self._tables[name]
                self._changed.wait(wait)
            return None
