"""A table's rows computed anew, or brought to its upstreams' present versions, beside the flows."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from headrace.engine.backfill.backfill import check_text
from headrace.engine.flow.flow import Flow
from headrace.engine.flow.publication import Publication
from headrace.engine.flow.rejoin import refresh_beside
from headrace.engine.partitions.offline import Offline
from headrace.engine.proof.verify import Proof
from headrace.engine.spark.sessions import Sessions
from headrace.engine.statements.blue_green import Green
from headrace.engine.supervisor.schedule import of_another_text
from headrace.engine.table.offline_bound import offline
from headrace.engine.table.table import Registry, StgTable, Table
from headrace.planner.policy.row_condition import RowCondition
from headrace.progress import Progress
from headrace.results import RefreshResult
from headrace.spec.partitions.label_range import LabelRange


@dataclass(frozen=True)
class Recompute:
    """
    Args:
        offline: writes the tables that no stream writes; holds off its own runs meanwhile.
    """

    sessions: Sessions
    registry: Registry
    flows: Sequence[Flow]
    proof: Proof
    offline: Offline
    publication: Publication
    run_id: str

    def recompute(
        self, table: Table, labels: LabelRange | None, progress: Progress, green: Green | None = None
    ) -> RefreshResult:
        """Let a range of the table be what its SQL gives in batch, or take over what stands ready aside."""
        batched = offline(table) or table.store.commit.complete_through
        with self.offline.alone(table.name) if batched else nullcontext():
            if green is not None and table in green:
                result = green.swap(table, progress)
            else:
                result = self.proof.refresh(table, labels, progress=progress)
        return self._corrected(table, result)

    def reread(self, table: StgTable, where: RowCondition, progress: Progress) -> RefreshResult:
        """Let rows of a stg table that runs be those of its source.

        Raises:
            TerminalError: it does not run, or a part of it cannot be read alone.
        """
        check_text(table)
        return self._corrected(table, self.proof.refresh_where(table, where, progress))

    def _corrected(self, table: Table, result: RefreshResult) -> RefreshResult:
        changed = bool(result.changes)
        self.publication.corrected(table, changed=changed)
        return result

    def advance(self, table: Table) -> None:
        """Bring a table that no flow advances to its upstreams' present versions."""
        if offline(table):
            self.offline.follow(table, Progress())
            return
        if of_another_text(table):
            self.recompute(table, None, Progress())
        refresh_beside(self.sessions, self.registry, self.flows, table, run_id=self.run_id)
