"""`APPLY BLUE GREEN`: changed tables are built and proven aside, and swapped in when they are right.

The green tables stand beside the warehouse's own, read the running upstreams or each other, and are shown to
nobody. To swap, a green table is brought to its upstreams' present, and its rows become the table's own in
one commit: its versions go on, so readers and subscribers notice no more than of any other `APPLY`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from headrace.engine.backfill.backfill import backfill
from headrace.engine.flow.flow import Flow
from headrace.engine.flow.rejoin import refresh_beside
from headrace.engine.proof.parity import verify_batch
from headrace.engine.spark.sessions import Sessions
from headrace.engine.table.run import TableRun
from headrace.engine.table.table import Registry, Table
from headrace.errors import TerminalError
from headrace.planner.policy.apply import ApplyStep
from headrace.planner.policy.changes import ChangeKind
from headrace.progress import Progress
from headrace.results import ParityResult, RefreshResult
from headrace.spec.model import TableName
from headrace.storage.location import Location, remove_tree
from headrace.store.tables import StoredTable


@dataclass
class Green:
    """
    Args:
        running: the tables that run, by which `swap` finds the table to replace.
        place: directory of the green tables; whatever an earlier run has left there goes.
    """

    sessions: Sessions
    running: Registry
    flows: Sequence[Flow]
    place: Location
    run_id: str
    proofs: list[ParityResult] = field(default_factory=list)
    _tables: Registry = field(default_factory=Registry)
    _green: set[TableName] = field(default_factory=set)
    _swapped: dict[str, int] = field(default_factory=dict)

    def __contains__(self, table: Table) -> bool:
        return table.name in self._green

    def build(self, steps: Sequence[ApplyStep], wanted: Registry, progress: Progress) -> None:
        """Compute the tables that are to have other rows, and prove them.

        Raises:
            TerminalError: one cannot be built aside, or differs from its query in batch. Nothing has changed.
        """
        kinds = {step.change.table: step for step in steps}
        self._green = {name for name, step in kinds.items() if step.renews}
        self.clear()
        for table in wanted:
            self._tables.tables[table.name] = self._aside(table, kinds)
        todo = [table for table in self._tables if table.name in self._green]
        for done, table in enumerate(todo):
            progress.report(f"{table.name}: building it aside", done, len(todo))
            table.store.create(table.template)
            table.store.open()
            self._advance(table)
        for done, table in enumerate(todo):
            progress.report(f"{table.name}: proving it", done, len(todo))
            self._advance(table)
            proof = verify_batch(self.sessions.batch, self._tables, table)
            self.proofs.append(proof)
            if not proof.equal:
                raise TerminalError(
                    f"`{table.name}`, built aside, differs from its query in batch: {proof.missing} rows "
                    f"missing, {proof.extra} too many. Nothing was applied. Next: `headrace plan`"
                )

    def swap(self, table: Table, progress: Progress) -> RefreshResult:
        """Let the green table's rows be the table's own. The table rests; its upstreams have swapped."""
        green = self._tables[table.name]
        self._advance(green)
        progress.report(f"{table.name}: swapping it in")
        names = green.store.schema.stored_names
        rows = green.store.frame(self.sessions.batch, version=green.store.version).select(*names)
        result = backfill(
            self.sessions,
            self.running,
            table,
            None,
            expected=rows,
            frontier={u: self._swapped.get(u, v) for u, v in green.reached.items()},
            run_id=self.run_id,
            progress=progress,
        )
        self._swapped[str(table.name)] = table.store.version
        return result

    def clear(self) -> None:
        """Delete the green tables."""
        remove_tree(self.place)

    def _aside(self, table: Table, kinds: dict[TableName, ApplyStep]) -> Table:
        if table.name not in self._green:
            # An added table is not there yet; nobody reads it but those that are refused below.
            return self.running.tables.get(table.name, table)
        upstreams = [u for u in table.spec.upstreams if isinstance(u, TableName)]
        added = [str(u) for u in upstreams if u in kinds and kinds[u].change.kind is ChangeKind.ADDED]
        why = f"it reads {', '.join(added)}, which is new" if added else "it reads a source"
        if added or not upstreams:
            raise TerminalError(
                f"`{table.name}` cannot be built aside: {why}. Nothing was applied. Next: `headrace apply`"
            )
        store = StoredTable(table.name, self.place, table.store.schema)
        return replace(table, store=store, run=TableRun())

    def _advance(self, table: Table) -> None:
        refresh_beside(self.sessions, self._tables, self.flows, table, run_id=self.run_id)
