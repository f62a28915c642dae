"""What the catalog has noted of one table's partitions by time: which are complete, and which wait."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from headrace.catalog.completions import CompletionProgress, Completions
from headrace.engine.table.table import Table
from headrace.planner.policy.completion import newly_complete
from headrace.spec.partitions.labels import is_label

log = logging.getLogger(__name__)

AGAIN_SECONDS = 60.0
"""Pause after a run has failed."""


@dataclass
class CompletionState:
    """Read again from the catalog only after it was written.

    Args:
        failed: until when what is run rests, seconds since 1970, and why.
    """

    known: Completions
    table: Table
    failed: tuple[float, str] = (0.0, "")
    _progress: CompletionProgress | None = None
    _waiting: dict[str, int] | None = None

    def progress(self) -> CompletionProgress | None:
        """How far partitions are complete; None before a look or after a change of format."""
        if self._progress is None:
            self._progress = self.known.progress(self.table.name)
            if self._progress is not None and not is_label(self.table.spec, self._progress.through):
                self.known.restart(self.table.name)
                self._progress = None
        return self._progress

    def waiting(self) -> dict[str, int]:
        """When each partition that waits is due, milliseconds of the signal."""
        if self._waiting is None:
            self._waiting = self.known.waiting(self.table.name)
        return self._waiting

    def written(self) -> None:
        """The catalog has something new."""
        self._progress = self._waiting = None

    def newly(self, progress: CompletionProgress, signal: int) -> list[str]:
        """The partitions that have become complete since, oldest first.

        Args:
            signal: how far the table is, milliseconds since 1970.
        """
        moment = datetime.fromtimestamp(signal / 1000, UTC)
        return newly_complete(self.table.spec, moment, progress.through)

    def complete(self, labels: Sequence[str], signal: int) -> None:
        """Note what has become complete, if anything has: it waits to be run."""
        if labels:
            log.info("%s: complete up to %s", self.table.name, labels[-1])
            self.known.complete(self.table.name, labels, signal, self.table.store.version)
            self.written()

    def reopen(self, labels: Sequence[str], signal: int, version: int) -> None:
        """Note that data came late: these wait again, for the declared delay."""
        log.debug("%s: late data in %s", self.table.name, ", ".join(labels))
        due = signal + self.table.spec.completion.delay // timedelta(milliseconds=1)
        self.known.reopen(self.table.name, labels, due_ms=due, version=version, looked=version)
        self.written()

    def fail(self, now: float, error: Exception) -> None:
        """Rest from now on, seconds since 1970."""
        self.failed = now + AGAIN_SECONDS, str(error).splitlines()[0]

    def warnings(self) -> list[str]:
        """What `headrace status` says where the last run failed."""
        return [f"its complete partitions wait: {self.failed[1]}"] if self.failed[1] else []
