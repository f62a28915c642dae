"""The newest records of a changelog, in memory: whoever looks for them every second reads no log."""

from __future__ import annotations

from collections import deque
from itertools import islice

from headrace.store.record.commits import Commit

KEPT = 1_000
"""Commits of one table that are kept."""


class Recent:
    """Records of versions that follow one another without a gap. Not thread-safe: its owner holds a lock."""

    def __init__(self) -> None:
        self._commits: deque[Commit] = deque(maxlen=KEPT)

    def add(self, commit: Commit) -> None:
        """Keep the record of a version that was just committed."""
        if self._commits and commit.version != self._commits[-1].version + 1:
            self._commits.clear()
        self._commits.append(commit)

    def clear(self) -> None:
        """Forget all of them: others may have written the changelog."""
        self._commits.clear()

    def between(self, after: int, through: int) -> list[Commit | None] | None:
        """The records of versions `(after, through]`, oldest first; None where one of them is not kept."""
        if not self._commits or after > through:
            return None
        first, last = self._commits[0].version, self._commits[-1].version
        if after + 1 < first or through > last:
            return None
        return list(islice(self._commits, after + 1 - first, through + 1 - first))
