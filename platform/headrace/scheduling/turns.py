"""When each workflow's next refresh is due: within its freshness, by what refreshes took so far."""

from __future__ import annotations

import itertools
import time
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

from headrace.planner.policy.control import refresh_interval
from headrace.spec.model import TableName

if TYPE_CHECKING:
    from headrace.catalog.workflows import RefreshWorkflow

PAST = 5
"""Refreshes of a table whose durations count."""

UNMET = 3
"""Refreshes in a row that each take too long for any schedule, until the schedule is given up."""

FIRST_RETRY, LONGEST_RETRY = 2.0, 60.0
"""Back-off after a transient failure, seconds, doubled each time."""


@dataclass
class Pace:
    """One workflow's refreshes.

    Args:
        turn: of the next refresh, or of the one under way; never used again.
        since: from when on it could be due, where nothing has begun since.
        begun: when the last refresh began; None lets the next one be due at once.
        took: seconds of past refreshes that succeeded.
        wait: seconds between a failure and the next attempt; 0 where none will mend it.
        again: when that attempt is.
    """

    turn: str
    since: float
    begun: float | None = None
    took: deque[float] = field(default_factory=lambda: deque(maxlen=PAST))
    wait: float = 0.0
    again: float = 0.0
    underway: bool = False
    failed: bool = False

    def due(self, workflow: RefreshWorkflow, notice: float) -> float:
        """When the next refresh is due."""
        if self.begun is None:
            return self.since
        interval = refresh_interval(workflow.freshness, self.took, workflow.levels)
        at = self.begun + max(0.0, interval - notice)
        return min(at, self.again) if self.wait else at


class Turns:
    """Of all workflows; thread-safe. Nothing of it outlives the process: each is due at once at its start.

    Args:
        notice: seconds between a turn being due and its refresh beginning, at most.
        clock: seconds, always ascending.
    """

    def __init__(self, *, notice: float = 0.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._notice = notice
        self._clock = clock
        self._process = uuid.uuid4().hex[:12]
        self._numbers = itertools.count(1)
        self._paces: dict[TableName, Pace] = {}
        self._lock = Lock()

    def due_in(self, workflow: RefreshWorkflow) -> float:
        """Seconds until it is due; negative where it has been."""
        with self._lock:
            return self._pace(workflow.table).due(workflow, self._notice) - self._clock()

    def deadline(self, workflow: RefreshWorkflow) -> float:
        """When its next refresh is to have ended, by an ascending clock.

        That is its part of the freshness after the last one began, which may just have missed a change.
        """
        with self._lock:
            pace = self._pace(workflow.table)
            since = pace.since if pace.begun is None else pace.begun
            return since + workflow.freshness / workflow.levels

    def seen(self, table: TableName) -> tuple[str, bool, float | None]:
        """The turn that is next or under way, whether it is, and the seconds that the last refresh took."""
        with self._lock:
            pace = self._pace(table)
            return pace.turn, pace.underway, pace.took[-1] if pace.took else None

    def unmet(self, workflow: RefreshWorkflow) -> float | None:
        """Seconds that the newest refreshes took, at least, where each is too long to be within the freshness
        however often it is done; None where a schedule can keep it."""
        with self._lock:
            newest = list(self._pace(workflow.table).took)[-UNMET:]
        kept = any(refresh_interval(workflow.freshness, [took], workflow.levels) for took in newest)
        return None if kept or len(newest) < UNMET else min(newest)

    def begin(self, table: TableName, turn: str | None) -> Pace | str:
        """Take the turn, to be given back by `end`; else why it cannot be taken.

        Args:
            turn: None for the next one, whatever it is.
        """
        with self._lock:
            pace = self._pace(table)
            if turn is not None and turn != pace.turn:
                return f"turn {turn} is over"
            if pace.underway:
                return f"turn {pace.turn} is under way"
            pace.underway, pace.begun = True, self._clock()
            return pace

    def end(self, pace: Pace, *, succeeded: bool, again: bool = False) -> None:
        """The refresh has ended. What failed tells nothing of how long one takes.

        Args:
            again: it failed, and may succeed soon.
        """
        with self._lock:
            now = self._clock()
            pace.turn, pace.since, pace.underway = self._next(), now, False
            pace.failed = not succeeded
            if succeeded and pace.begun is not None:
                pace.took.append(now - pace.begun)
            pace.wait = min(max(pace.wait * 2, FIRST_RETRY), LONGEST_RETRY) if again else 0.0
            pace.again = now + pace.wait

    def at_once(self, table: TableName, *, always: bool) -> None:
        """The next refresh is due now.

        Args:
            always: also where the last one did not fail.
        """
        with self._lock:
            pace = self._pace(table)
            if not pace.underway and (always or pace.failed):
                pace.begun, pace.since, pace.wait = None, self._clock(), 0.0

    def forget(self, table: TableName) -> None:
        with self._lock:
            self._paces.pop(table, None)

    def _pace(self, table: TableName) -> Pace:
        return self._paces.get(table) or self._paces.setdefault(table, Pace(self._next(), self._clock()))

    def _next(self) -> str:
        """Another one after every restart: who kept an old turn cannot take a new one by it."""
        return f"{self._process}-{next(self._numbers)}"
