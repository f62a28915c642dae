"""Resync: what a table holds is put right from what it reads, whatever keeps it from going on.

A stg table's rows are read from the source at a position that is marked in the stream, aside, while the old
ones stay readable. What differs is committed as one version, consumers do with it what they declare, and the
stream goes on exactly from that position.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.engine.proof.verify import Proof
from headrace.engine.table.table import StgTable, Table, is_stg
from headrace.errors import TerminalError
from headrace.planner.policy.row_condition import RowCondition, row_condition
from headrace.progress import Progress
from headrace.results import ParityResult, RefreshResult, ResyncResult


@dataclass(frozen=True)
class Resync:
    """
    Args:
        proof: compares with the source, and reads from it.
        refresh: computes all of a table again and lets it go on, if it had to stop.
        refresh_where: reads rows of a stg table again that runs.
    """

    proof: Proof
    refresh: Callable[[Table, Progress], RefreshResult]
    refresh_where: Callable[[StgTable, RowCondition, Progress], RefreshResult]

    def run(self, table: Table, progress: Progress, *, dry_run: bool, where: str = "") -> ResyncResult:
        """A dry run says what differs and changes nothing.

        Args:
            where: only rows of a stg table that this holds for, there or in its source.
        Raises:
            TerminalError: a condition that cannot be used, or a part of a table that does not run.
        """
        name, condition = str(table.name), _condition(table, where) if where else None
        if dry_run:
            progress.report(f"{name}: comparing it with what it reads")
            return ResyncResult(table=name, dry_run=True, found=self._compared(table, condition))
        if condition is None:
            return ResyncResult(table=name, dry_run=False, refreshed=self.refresh(table, progress))
        assert is_stg(table)
        done = self.refresh_where(table, condition, progress)
        return ResyncResult(table=name, dry_run=False, refreshed=done)

    def _compared(self, table: Table, where: RowCondition | None) -> ParityResult:
        if is_stg(table):  # all of one that rests is read, and it goes on from there
            found = self.proof.compare_with_source(table, where)
            return found if where is not None else found.model_copy(update={"error": None})
        [result] = self.proof.prove(table, None)
        return result


def _condition(table: Table, where: str) -> RowCondition:
    if not is_stg(table):
        raise TerminalError(
            f"`{table.name}` is computed from its upstreams, so no rows of it can be read again. Next: "
            f"`headrace refresh {table.name}` with a range of its partitions"
        )
    return row_condition(table.spec, table.source.names, table.store.schema.names, where)
