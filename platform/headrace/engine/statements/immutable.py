"""`ALTER … SET IMMUTABLE WHERE` and `RESET IMMUTABLE`: the bound of a table's immutable partitions moves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from headrace.engine.backfill.backfill import backfill
from headrace.engine.flow.flow import flow_of
from headrace.engine.flow.publication import Publication
from headrace.engine.spark.sessions import Sessions
from headrace.engine.supervisor.supervisor import Supervisor
from headrace.engine.table.immutable import protect
from headrace.engine.table.table import Table
from headrace.errors import TerminalError, TransientError
from headrace.progress import Progress
from headrace.results import ImmutableResult
from headrace.spec.partitions.label_range import LabelRange
from headrace.spec.partitions.labels import cannot_keep, label_before, open_range, parse_label


@dataclass(frozen=True)
class Bounds:
    sessions: Sessions
    supervisor: Supervisor
    publication: Publication
    run_id: str

    def move(self, table: Table, before: str | None, progress: Progress) -> ImmutableResult:
        """Close the partitions before a label; where the bound was later, open those from it on.

        Partitions that open are computed by the table's query while it rests.

        Args:
            before: None: no partition is immutable.
        Raises:
            TerminalError: no partition of this table can be immutable, or its file declares what `before`
                opens.
            TransientError: it has no rows yet, or changed meanwhile.
        """
        self._check(table, before)
        was, bound = table.store.commit.immutable_before, before or ""
        refreshed = None
        if bound > was:
            if not protect(table, bound, run_id=self.run_id):
                raise TransientError(f"`{table.name}` has no rows yet. Next: `headrace status`")
        elif bound < was:
            with self._paused(table):
                refreshed = backfill(
                    self.sessions,
                    self.supervisor.registry,
                    table,
                    LabelRange(bound or open_range(table.spec).start, label_before(table.spec, was)),
                    immutable_before=bound,
                    run_id=self.run_id,
                    progress=progress,
                )
            self.publication.corrected(table)
        return ImmutableResult(table=str(table.name), before=bound, was=was, refreshed=refreshed)

    @contextmanager
    def _paused(self, table: Table) -> Iterator[None]:
        """The table neither streams nor refreshes meanwhile."""
        supervisor = self.supervisor
        flow = flow_of(supervisor.flows, table.name)
        with supervisor.arranging:
            if table.name in supervisor.admission.paused:
                raise TransientError(f"`{table.name}` is being computed. Next: the same statement, later")
            if flow is not None:
                flow.leave(table.name)
            supervisor.admission.paused.add(table.name)
        try:
            yield
        finally:
            supervisor.admission.paused.discard(table.name)
            if supervisor.catalog.desired(table.name) == "RUNNING":
                supervisor.resume(flow, table)

    def _check(self, table: Table, before: str | None) -> None:
        spec = table.spec
        if (why := cannot_keep(spec)) is not None:
            raise TerminalError(f"`{spec.name}` cannot keep partitions as they are: {why}")
        if before is not None:
            parse_label(spec, before)
        if spec.immutable_before is not None and (before or "") < spec.immutable_before:
            raise TerminalError(
                f"{spec.path}: IMMUTABLE WHERE ({spec.partition_column} < '{spec.immutable_before}') closes "
                "them. Next: edit the file, then `headrace apply`, then this statement again"
            )
        if table.store.version and table.store.commit.template != table.template:
            raise TerminalError(f"the definition of `{spec.name}` is not applied. Next: `headrace apply`")
