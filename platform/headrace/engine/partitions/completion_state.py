"""What the catalog has noted of one table's partitions by time: which are complete, and which wait."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from headrace.catalog.completions import Completions
from headrace.catalog.completions import Progress as Looked
from headrace.engine.table.table import Table
from headrace.planner.policy.completion import newly_complete
from headrace.spec.partitions.labels import is_label

log = logging.getLogger(__name__)

AGAIN_SECONDS = 60.0
"""Pause after a run has failed."""


@dataclass
class Noted:
    """Read again from the catalog only after it was written.

    Args:
        failed: until when what is run rests, seconds since 1970, and why.
    """

    known: Completions
    table: Table
    failed: tuple[float, str] = (0.0, "")
    _looked: Looked | None = None
    _waiting: dict[str, int] | None = None

    def looked(self) -> Looked | None:
        """How far it was looked; None before the first look, and where labels have another format now."""
        if self._looked is None:
            self._looked = self.known.progress(self.table.name)
            if self._looked is not None and not is_label(self.table.spec, self._looked.through):
                self.known.restart(self.table.name)
                self._looked = None
        return self._looked

    def waiting(self) -> dict[str, int]:
        """When each partition that waits is due, milliseconds of the signal."""
        if self._waiting is None:
            self._waiting = self.known.waiting(self.table.name)
        return self._waiting

    def written(self) -> None:
        """The catalog has something new."""
        self._looked = self._waiting = None

    def complete(self, looked: Looked, signal: int) -> None:
        """Note what has become complete since: it waits to be run.

        Args:
            signal: how far the table is, milliseconds since 1970.
        """
        moment = datetime.fromtimestamp(signal / 1000, UTC)
        if labels := newly_complete(self.table.spec, moment, looked.through):
            log.info("%s: complete up to %s", self.table.name, labels[-1])
            self.known.complete(self.table.name, labels, signal, self.table.store.version)
            self.written()

    def reopen(self, labels: Sequence[str], signal: int, version: int) -> None:
        """Note that data came late: these wait again, for the declared delay."""
        log.info("%s: late data in %s", self.table.name, ", ".join(labels))
        due = signal + self.table.spec.completion.delay // timedelta(milliseconds=1)
        self.known.reopen(self.table.name, labels, due_ms=due, version=version, looked=version)
        self.written()

    def fail(self, now: float, error: Exception) -> None:
        """Rest from now on, seconds since 1970."""
        self.failed = now + AGAIN_SECONDS, str(error).splitlines()[0]

    def told(self) -> list[str]:
        """What `headrace status` says where the last run failed."""
        return [f"its complete partitions wait: {self.failed[1]}"] if self.failed[1] else []
