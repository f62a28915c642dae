"""What comes with the rows of a stg table that are read again from its source."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from headrace.store.record.commits import Commit
from headrace.store.record.frontier import Offsets


@dataclass(frozen=True)
class Reread:
    """
    Args:
        sequence: that of rows which the table lacks: no transaction that they do not show has changed one of
            them before it.
        high: events up to it may be in the rows: those that a flow holds back until their transaction is
            whole come after `offsets`.
        offsets: where the topic goes on after the rows; empty for a table that runs, which knows.
        generation: of the events from there on.
        origin: what offsets and sequences count in from there on.
        lost: whether the topic up to there does not give these rows any more.
    """

    sequence: str
    high: str
    offsets: Offsets
    generation: int
    origin: dict[str, Any]
    lost: bool

    def record(self, commit: Commit) -> Commit:
        """The record of the commit that puts the rows in their place."""
        commit = replace(commit, high=max(commit.high, self.high))
        if not self.offsets:
            return commit
        anew = self.lost or bool(commit.loaded)  # rows that came past the topic are by the old text
        return replace(
            commit,
            offsets={**commit.offsets, **self.offsets},
            generation=self.generation,
            origin=self.origin,
            snapshot=0,
            loaded=commit.version if anew else 0,
            loaded_at=self.offsets if anew else {},
        )
