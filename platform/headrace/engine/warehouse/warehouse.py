"""The warehouse: everything that a statement can ask of it. One instance per server, holding the lease."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from headrace.engine.backfill.backfill import check_range
from headrace.engine.read import changes, views
from headrace.engine.statements.alter import alter
from headrace.engine.statements.apply import Apply
from headrace.engine.statements.blue_green import Green
from headrace.engine.statements.cascade import Cascade
from headrace.engine.statements.immutable import Bounds
from headrace.engine.statements.rewind_supervised import supervised
from headrace.engine.table import immutable
from headrace.engine.table.offline_bound import offline
from headrace.engine.table.table import Table
from headrace.engine.warehouse import status
from headrace.engine.warehouse.lifecycle import Lifecycle
from headrace.engine.warehouse.partition_status import partition_listing, summaries, with_completion
from headrace.progress import Progress
from headrace.results import (
    AlterResult,
    ApplyResult,
    CascadeResult,
    ChangePage,
    ConstraintResult,
    Explanation,
    ImmutableResult,
    LoadResult,
    ParityResult,
    RefreshResult,
    RewindResult,
    TableStatus,
    WorkflowStatus,
)
from headrace.spec import Project
from headrace.spec.alteration import Property
from headrace.spec.edit import Edit, rollback
from headrace.store.record.frontier import Offsets

if TYPE_CHECKING:
    from datetime import datetime

    import pyarrow as pa

    from headrace.catalog.completions import Summary
    from headrace.results import Start

Edits = Callable[[Project], Edit]


class Warehouse(Lifecycle):
    """Answers statements. Methods are thread-safe after `start`."""

    def select(self, sql: str, *, limit: int | None = None) -> pa.Table:
        """Rows of a SELECT over live tables."""
        self._ready()
        frame = views.select(self._sessions.flow, self._registry, sql)
        return (frame if limit is None else frame.limit(limit)).toArrow()

    def refresh(self, table: str, start: str | None, end: str | None, *, progress: Progress) -> RefreshResult:
        """INSERT OVERWRITE of the inclusive partition range, beside the running stream.

        Raises:
            SpecError: a bound of the wrong format, or start > end.
        """
        found = self._table(table)
        check_range(found, start, end)
        with self._cancellable(progress):
            return self._refresh(found, start, end, progress)

    def cascade(
        self, table: str, start: str | None, end: str | None, *, dry_run: bool = False, progress: Progress
    ) -> CascadeResult:
        """`refresh` of the range, then of what it touches downstream; a dry run only says what that is."""
        watch = self._ready().watch
        proof = self._proof
        work = Cascade(
            self.project,
            self._registry,
            lambda t, span: (
                immutable.nothing_left(t, span.start, span.end)
                or self.refresh(str(t.name), span.start, span.end, progress=progress)
            ),
            self._follow,
            proof.prove,
            self._settings.backfill_partitions_at_once,
            lambda: self._settings.backfill_pause_seconds * watch.giving_way,
        )
        with self._cancellable(progress):
            ends = None if start is None or end is None else (start, end)
            return work.run(self._table(table), ends, dry_run=dry_run, progress=progress)

    def refresh_new(self, table: str, turn: str | None, *, progress: Progress) -> RefreshResult:
        """Bring a table that no flow advances to its upstreams' versions, if the turn is still to come.

        Of one that the batch alone writes: write what is complete.
        """
        found = self._table(table)
        with self._cancellable(progress):
            if offline(found) and turn is None:
                return self._completing().now(found, progress)
            return self._ready().refreshes.now(found, turn, progress)

    def workflows(self) -> list[WorkflowStatus]:
        """The refresh workflows of tables that no flow advances."""
        return self._ready().refreshes.scheduler.status()

    def _follow(self, table: Table) -> None:
        """Bring a table that runs to its upstreams' present versions."""
        if table.spec.source is None and self._ready().runs(self._flow(table), table):
            self._advance(table)

    def verify(
        self,
        tables: list[str] | None,
        *,
        start: str | None = None,
        end: str | None = None,
        source: bool = True,
        repair: bool = False,
        progress: Progress,
    ) -> list[ParityResult]:
        """Parity of the named tables (all where None): derived ones against batch, stg against the source.

        Args:
            repair: recompute what differs, upstreams first, and compare again.
        """
        self._ready()
        chosen = [self._table(n) for n in tables] if tables else list(self._registry)
        with self._cancellable(progress):
            if not repair:
                return self._proof.verify(chosen, start=start, end=end, source=source, progress=progress)
            return self._proof.repair(
                [t for t in self._registry if t in chosen],
                start=start,
                end=end,
                source=source,
                follow=self._follow,
                corrected=self._corrected,
                progress=progress,
            )

    def check(
        self, table: str, *, start: str | None = None, end: str | None = None, progress: Progress
    ) -> list[ConstraintResult]:
        """Rows of the table's live state that break each of its constraints."""
        from headrace.engine.proof.check import check

        found = self._table(table)
        with self._cancellable(progress):
            return check(self._sessions.batch, found, start=start, end=end, progress=progress)

    def load(self, source: str, *, progress: Progress) -> LoadResult:
        """The bulk snapshot of a source that no connector reads yet, into all of its stg tables."""
        self._ready()
        return self._loads.load(source, progress)

    def suspend(self, table: str) -> None:
        """Let the table stand still; its neighbours go on."""
        found = self._table(table)
        self._catalog.set_desired(found.name, "SUSPENDED")
        self._ready().suspend(self._flow(found), found)

    def resume(self, table: str) -> None:
        """Go on from the recorded frontier, nothing lost and nothing twice."""
        found = self._table(table)
        self._catalog.set_desired(found.name, "RUNNING")
        self._ready().resume(self._flow(found), found)

    def alter(self, table: str, what: Property, value: str | None) -> AlterResult:
        """Set a property of the table, or let its file count again (None); flows and schedule follow."""
        supervisor = self._ready()
        self._loads.refuse()
        return alter(self.project, self._catalog, supervisor, self._table(table), what, value)

    def immutable(self, table: str, before: str | None, *, progress: Progress) -> ImmutableResult:
        """Close the partitions before a label, or open those from it on; None: all of them."""
        work = Bounds(self._sessions, self._ready(), self._flow, self._corrected, self._run_id)
        with self._cancellable(progress):
            return work.move(self._table(table), before, progress)

    def apply(
        self,
        edit: Edits | None = None,
        *,
        blue_green: bool = False,
        dry_run: bool = False,
        progress: Progress,
    ) -> ApplyResult:
        """Let the tables be what the files declare, or what one edit of them makes of those that run.

        Args:
            blue_green: changed tables are built and proven aside first.
        """
        supervisor = self._ready()
        self._loads.refuse()
        made = edit(self.project) if edit is not None else None
        green = None
        if blue_green:
            place = self._settings.warehouse / "green"
            green = Green(self._sessions, self._registry, self._flows, place, self._run_id)
        work = Apply(
            self._registry,
            self._catalog,
            supervisor,
            self._views,
            lambda table, said: self._refresh(table, None, None, said, green),
            lambda table: supervisor.resume(self._flow(table), table),
            purge=made is not None,
        )
        with self._cancellable(progress):
            return self._deployment.apply(
                work, self._sessions.batch, made, green=green, dry_run=dry_run, progress=progress
            )

    def rollback(self, table: str, *, progress: Progress) -> ApplyResult:
        """Let the table be what it was declared to be before."""
        name = self.project.table(table).name
        return self.apply(lambda p: rollback(p, name, self._catalog.former.newest(name)), progress=progress)

    def rewind(
        self, table: str, to: int | datetime, *, cascade: bool, dry_run: bool, progress: Progress
    ) -> RewindResult:
        """Bring the table, and with `cascade` what came of its later rows, back to how it was."""
        supervisor, found = self._ready(), self._table(table)
        self._loads.refuse()
        with self._cancellable(progress):
            work = supervised(supervisor, self._proof.topics, self._run_id)
            return work.run(found, to, cascade=cascade, dry_run=dry_run, progress=progress)

    def changes(self, table: str, start: Start, reader: str | None) -> ChangePage:
        """A page of the changelog, in order; a named reader's position is remembered."""
        found = self._table(table)
        self._session()
        return changes.page(self._sessions.batch, found, self._catalog.readers, start, reader)

    def readers(self, table: str | None = None) -> list[dict[str, Any]]:
        """Registered readers, how far they have come and how far behind they are."""
        name = None if table is None else str(self._table(table).name)
        return changes.listing(self._catalog.readers.all(name), self._registry)

    def drop_reader(self, reader: str, table: str) -> None:
        """Forget a reader: it holds nothing back any more."""
        self._catalog.readers.drop(str(self._table(table).name), reader)

    def dead_letters(self, table: str | None = None) -> list[dict[str, Any]]:
        """Messages that could not be applied, with offset and reason."""
        return [r for r in self._dead_letters.rows() if table is None or r["table"] == table]

    def status(self) -> list[TableStatus]:
        if self._supervisor is None or self._topics is None:
            return [status.initializing(name, self._waiting_for) for name in self.project.tables]
        ends = status.topic_ends(self._topics, self._registry)
        known = summaries(self._catalog.completions)
        return [self._status(table, ends, known) for table in self._registry]

    def explain(self, table: str, *, history: bool = False) -> Explanation:
        """Mode and strategy, and why; with `history` the decisions of past refreshes, newest first."""
        found = self._table(table)
        decided = self._catalog.decisions.of(found.name, status.DECISIONS)
        return status.explain(found, self._flow(found), decided, history=history)

    def describe(self, table: str) -> dict[str, Any]:
        found = self._table(table)
        return status.describe_table(
            found,
            self._status(found, {}, summaries(self._catalog.completions)),
            self._catalog.alterations.of(found.name),
        )

    def partitions(self, table: str) -> list[dict[str, Any]]:
        """The complete partitions of a table, oldest first, and what came of each."""
        return partition_listing(self._table(table).spec, self._catalog.completions)

    def _status(self, table: Table, ends: Offsets, known: Mapping[str, Summary]) -> TableStatus:
        row, letters = self._catalog.row(table.name), self._dead_letters.count(str(table.name))
        warnings = [
            *self._ready().warnings(table),
            *self._loads.warnings(table),
            *self._deployment.edited(table.name),
        ]
        found = status.table_status(table, self._registry, row, ends, dead_letters=letters, warnings=warnings)
        return with_completion(found, table, self._registry, known, self._completion)

    def show(self) -> list[dict[str, Any]]:
        return status.listing(self.status())
