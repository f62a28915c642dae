"""Resync: what a table holds is put right from what it reads, whatever keeps it from going on.

A stg table's rows are read from the source at a position that is marked in the stream, aside, while the old
ones stay readable. What differs is committed as one version, consumers do with it what they declare, and the
stream goes on exactly from that position.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.engine.proof.verify import Proof
from headrace.engine.table.table import Table, is_stg
from headrace.progress import Progress
from headrace.results import ParityResult, RefreshResult, ResyncResult


@dataclass(frozen=True)
class Resync:
    """
    Args:
        refresh: computes all of a table again and lets it go on, if it had to stop.
    """

    proof: Proof
    refresh: Callable[[Table, Progress], RefreshResult]

    def run(self, table: Table, progress: Progress, *, dry_run: bool) -> ResyncResult:
        """A dry run says what differs and changes nothing."""
        if dry_run:
            progress.report(f"{table.name}: comparing it with what it reads")
            return ResyncResult(table=str(table.name), dry_run=True, found=self._compared(table))
        return ResyncResult(table=str(table.name), dry_run=False, refreshed=self.refresh(table, progress))

    def _compared(self, table: Table) -> ParityResult:
        if is_stg(table):
            return self.proof.compare_with_source(table).model_copy(update={"error": None})
        [result] = self.proof.prove(table, None)
        return result
