"""What a running server knows of a table beyond its declaration and its store; it is gone after a restart."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from headrace.engine.spark.prepared import Queries
from headrace.percentile import percentile
from headrace.planner.policy.choice import Sample
from headrace.quality.blocking import Blocking
from headrace.sources.origin import Origin
from headrace.store.record.commits import Commit
from headrace.store.record.decision import Decision

LATENCIES = 1024
"""Newest commits of a table whose latencies are remembered."""


@dataclass(frozen=True)
class InQuarantine:
    """What was in a table's quarantine when it was counted last.

    Args:
        version: of the table, then.
        reached: the upstream versions that it covered.
        by_constraint: a row that breaks several is among those of each.
        seconds: that it took to count.
    """

    version: int
    reached: dict[str, int]
    rows: int
    by_constraint: dict[str, int]
    seconds: float


@dataclass
class TableRun:
    covered: dict[str, int] = field(default_factory=dict)
    """Upstream versions found to change nothing since the recorded frontier."""

    queries: Queries = field(default_factory=Queries)
    """What small changes of the table run, planned once."""

    arrow_agrees: bool = False
    """Whether Arrow has given what Spark gives for rows of the table."""

    decisions: deque[Decision] | None = None
    """Past decisions, oldest first; None before they were read back."""

    samples: deque[list[Sample]] | None = None
    """What each of them teaches, worked out once."""

    refreshes: int = 0
    """Refreshes by this process."""

    latency: float | None = None
    """Seconds from the source's commit to the table's, of the newest change applied."""

    latencies: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=LATENCIES))
    """When the newest commits were made, by the monotonic clock, and their latencies."""

    origin: Origin | None = None
    """Where a stg table's events come from, as it was seen last."""

    quarantine: InQuarantine | None = None
    """What is in its quarantine; None before it was counted."""

    blocking: Blocking | None = None
    """The critical expectations of its suite; None before they were read."""

    suite_seen: tuple[int, int] | None = None
    """Time and size of the file that they were read from; None where there was none."""

    def forget_plans(self) -> None:
        """What was planned is of other columns."""
        self.queries, self.arrow_agrees = Queries(), False

    def origin_after(self, head: Commit) -> dict[str, Any]:
        """What the next commit of a stg table says of where its events come from."""
        return head.origin if self.origin is None else self.origin.record()

    def seen(self, commit: Commit) -> None:
        """Note how fresh a commit just made is."""
        if commit.source_ms:
            self.latency = max(0.0, time.time() - commit.source_ms / 1000)
            self.latencies.append((time.monotonic(), self.latency))

    def measured(self, share: float, window: float) -> float | None:
        """The latency that `share` of the commits of the last `window` seconds keep; None without any."""
        since = time.monotonic() - window
        newest = reversed(self.latencies.copy())
        found = sorted(latency for at, latency in takewhile(lambda seen: seen[0] >= since, newest))
        return percentile(found, share) if found else None
