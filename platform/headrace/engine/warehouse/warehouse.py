"""The warehouse: everything that a statement can ask of it. One instance per server, holding the lease."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from headrace.catalog import Catalog, CatalogRow
from headrace.engine.backfill.backfill import check_range
from headrace.engine.proof.accounting import accounting
from headrace.engine.read import changes, views
from headrace.engine.read.streamed import StreamedRows
from headrace.engine.spark.job_group import JobGroup
from headrace.engine.spark.jvm import jvm_status
from headrace.engine.spark.meter import METER
from headrace.engine.statements.alter import alter
from headrace.engine.statements.blue_green import Green
from headrace.engine.statements.cascade import Cascade
from headrace.engine.statements.dead_letters import Places, Settlement
from headrace.engine.statements.immutable import Bounds
from headrace.engine.statements.resync import Resync
from headrace.engine.statements.rewind_supervised import supervised
from headrace.engine.table import immutable
from headrace.engine.table.offline_bound import offline
from headrace.engine.table.table import Registry, Table
from headrace.engine.warehouse import status
from headrace.engine.warehouse.engine import Engine
from headrace.engine.warehouse.lifecycle import Lifecycle
from headrace.engine.warehouse.partition_status import partition_listing, summaries, with_completion
from headrace.errors import TerminalError
from headrace.progress import Progress
from headrace.results import (
    AlterResult,
    ApplyResult,
    CascadeResult,
    ChangePage,
    CheckEvaluation,
    ConstraintResult,
    DeadLettersResult,
    EraseResult,
    Explanation,
    ImmutableResult,
    JvmStatus,
    LoadResult,
    ParityResult,
    PublishResult,
    RefreshResult,
    ResyncResult,
    RewindResult,
    SourceState,
    TableAccount,
    TableCost,
    TableStatus,
    WorkflowStatus,
    evaluations,
)
from headrace.settings import Settings
from headrace.sources.stream.formats import Formats
from headrace.spec import Project
from headrace.spec.alteration import Property
from headrace.spec.edit import Edit, rollback
from headrace.spec.partitions.label_range import LabelRange
from headrace.store.lease import share_name
from headrace.store.record.frontier import Offsets

if TYPE_CHECKING:
    from datetime import datetime

    import pyarrow as pa

    from headrace.catalog.completions import Summary
    from headrace.results import Start

Edits = Callable[[Project], Edit]


class Warehouse:
    """Answers statements. Methods are thread-safe after `start`."""

    def __init__(self, project: Project, settings: Settings, catalog: Catalog) -> None:
        self._lifecycle = Lifecycle(project, settings, catalog)
        self._settings = settings
        self._catalog = catalog

    @property
    def project(self) -> Project:
        """The definitions that run, without what statements have altered."""
        return self._lifecycle.deployment.files

    def start(self) -> None:
        """Take the lease and start Spark; the tables follow as soon as their source is there.

        Raises:
            TerminalError: another process holds the lease, and this one is no standby.
        """
        self._lifecycle.start()

    @property
    def stands_by_for(self) -> str | None:
        """Who serves the warehouse, while this one waits to take over."""
        holder = self._lifecycle.stands_by_for
        return None if holder is None else str(holder)

    def give_up(self) -> None:
        """Wait no longer; `start` returns."""
        self._lifecycle.give_up()

    def stop(self) -> None:
        """Stop the flows between two micro-batches, then Spark; free the lease."""
        self._lifecycle.stop()

    def select(self, sql: str) -> StreamedRows:
        """Rows of a SELECT over live tables, several at one cut. Spark runs it as they are read."""
        engine = self._engine()
        spark, quarantine = engine.sessions.flow, engine.quarantine
        frame = views.select(
            spark, engine.registry, sql, lambda table: quarantine.frame(spark, table), engine.one_cut
        )
        return StreamedRows(frame)

    def refresh(self, table: str, labels: LabelRange | None, *, progress: Progress) -> RefreshResult:
        """INSERT OVERWRITE of a partition range (all where None), beside the running stream.

        Raises:
            SpecError: a bound of the wrong format, or start > end.
        """
        found = self._table(table)
        check_range(found, labels)
        engine = self._engine()
        engine.wait_for_room(found, progress)
        with self._cancellable(progress):
            return engine.refresh(found, labels, progress)

    def cascade(
        self, table: str, labels: LabelRange | None, *, dry_run: bool = False, progress: Progress
    ) -> CascadeResult:
        """`refresh` of the range, then of what it touches downstream; a dry run only says what that is."""
        engine = self._engine()

        def refresh(found: Table, part: LabelRange | None) -> RefreshResult:
            if nothing := immutable.nothing_left(found, part):
                return nothing
            check_range(found, part)
            return engine.refresh(found, part, progress)

        work = Cascade(
            self.project,
            engine.registry,
            refresh,
            engine.follow,
            engine.proof.prove,
            self._settings.backfill_partitions_at_once,
            lambda: self._settings.backfill_pause_seconds * engine.supervisor.watch.giving_way,
        )
        found = self._table(table)
        if not dry_run:
            engine.wait_for_room(found, progress)
        with self._cancellable(progress):
            return work.run(found, labels, dry_run=dry_run, progress=progress)

    def refresh_new(self, table: str, turn: str | None, *, progress: Progress) -> RefreshResult:
        """Bring a table that no flow advances to its upstreams' versions, if the turn is still to come.

        Of one that the batch alone writes: write what is complete.
        """
        engine, found = self._engine(), self._table(table)
        with self._cancellable(progress):
            if offline(found) and turn is None:
                return engine.completion.now(found, progress)
            return engine.supervisor.refreshes.now(found, turn, progress)

    def workflows(self) -> list[WorkflowStatus]:
        """The refresh workflows of tables that no flow advances."""
        return self._engine().supervisor.refreshes.scheduler.status()

    def costs(self, hours: int) -> list[TableCost]:
        """What work for tables has taken, in the present hour and so many before it."""
        self._engine().note_costs()
        return self._catalog.costs.since(hours)

    def sources(self) -> list[SourceState]:
        """What was last seen of the sources and their connectors."""
        return self._engine().supervisor.sources.states() if self._lifecycle.up else []

    def spent(self) -> list[TableCost]:
        """What work for tables has taken since the server started."""
        return [cost.told(to) for to, cost in METER.total().items()]

    def verify(
        self,
        tables: list[str] | None,
        labels: LabelRange | None = None,
        *,
        source: bool = True,
        repair: bool = False,
        progress: Progress,
    ) -> list[ParityResult]:
        """Parity of the named tables (all where None): derived ones against batch, stg against the source.

        Args:
            repair: recompute what differs, upstreams first, and compare again.
        """
        engine = self._engine()
        chosen = [self._table(n) for n in tables] if tables else list(engine.registry)
        with self._cancellable(progress, urgent=repair):
            if not repair:
                return engine.proof.verify(chosen, labels, source=source, progress=progress)
            return engine.proof.repair(
                [t for t in engine.registry if t in chosen],
                labels,
                source=source,
                follow=engine.follow,
                corrected=engine.publication.corrected,
                progress=progress,
            )

    def check(
        self, table: str, labels: LabelRange | None = None, *, progress: Progress
    ) -> list[ConstraintResult]:
        """Rows of the table's live state that break each of its constraints."""
        from headrace.engine.proof.check import check

        found = self._table(table)
        with self._cancellable(progress, urgent=False):
            results = check(
                self._lifecycle.sessions().batch,
                found,
                labels,
                quarantine=self._engine().quarantine,
                progress=progress,
            )
        self._catalog.evaluations.note(evaluations(results, labels))
        return results

    def load(self, source: str, *, progress: Progress) -> LoadResult:
        """The bulk snapshot of a source that no connector reads yet, into all of its stg tables."""
        self._refuse_in_environment(f"load `{source}`, which begins its stream")
        return self._engine().loads.load(source, progress)

    def suspend(self, table: str) -> None:
        """Let the table stand still; its neighbours go on."""
        found = self._table(table)
        self._catalog.set_desired(found.name, "SUSPENDED")
        engine = self._engine()
        engine.supervisor.suspend(engine.flow(found.name), found)

    def resume(self, table: str) -> None:
        """Go on from the recorded frontier, nothing lost and nothing twice."""
        found = self._table(table)
        self._catalog.set_desired(found.name, "RUNNING")
        engine = self._engine()
        engine.follow_columns(found)
        engine.resume(self._table(table))

    def alter(self, table: str, what: Property, value: str | None) -> AlterResult:
        """Set a property of the table, or let its file count again (None); flows and schedule follow."""
        engine = self._engine()
        engine.loads.refuse()
        return alter(self.project, self._catalog, engine.supervisor, self._table(table), what, value)

    def immutable(self, table: str, before: str | None, *, progress: Progress) -> ImmutableResult:
        """Close the partitions before a label, or open those from it on; None: all of them."""
        engine = self._engine()
        work = Bounds(engine.sessions, engine.supervisor, engine.publication, engine.run_id)
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
        engine = self._engine()
        engine.loads.refuse()
        made = edit(self.project) if edit is not None else None
        green = None
        if blue_green:
            place = self._settings.warehouse / "green" / share_name(self._settings.served or ("all",))
            green = Green(engine.sessions, engine.registry, engine.flows, place, engine.run_id)
        work = engine.applying(green, purge=made is not None)
        with self._cancellable(progress):
            return self._lifecycle.deployment.apply(
                work, engine.sessions.batch, made, green=green, dry_run=dry_run, progress=progress
            )

    def rollback(self, table: str, *, progress: Progress) -> ApplyResult:
        """Let the table be what it was declared to be before."""
        name = self.project.table(table).name
        return self.apply(lambda p: rollback(p, name, self._catalog.former.newest(name)), progress=progress)

    def rewind(
        self, table: str, to: int | datetime, *, cascade: bool, dry_run: bool, progress: Progress
    ) -> RewindResult:
        """Bring the table, and with `cascade` what came of its later rows, back to how it was."""
        engine, found = self._engine(), self._table(table)
        engine.loads.refuse()
        with self._cancellable(progress):
            work = supervised(engine.supervisor, engine.topics, engine.run_id)
            return work.run(found, to, cascade=cascade, dry_run=dry_run, progress=progress)

    def resync(self, table: str, *, where: str = "", dry_run: bool, progress: Progress) -> ResyncResult:
        """All of the table anew from what it reads, or what that would change; then it goes on from there.

        Args:
            where: only rows of a stg table that this condition holds for, there or in its source.
        """
        engine, found = self._engine(), self._table(table)
        engine.loads.refuse()
        if not dry_run:
            engine.follow_columns(found)
            found = self._table(table)
        work = Resync(
            engine.proof, lambda which, said: engine.refresh(which, None, said), engine.recomputing.reread
        )
        with self._cancellable(progress, urgent=not dry_run):
            return work.run(found, progress, dry_run=dry_run, where=where)

    def erase(
        self,
        table: str,
        key: tuple[tuple[str | None, str], ...],
        /,
        *,
        history: bool,
        dry_run: bool,
        progress: Progress,
    ) -> EraseResult:
        """Erase what is left of a row of a stg table that its source has deleted.

        Args:
            history: with the older versions of tables downstream that do not carry its key.
        """
        engine, found = self._engine(), self._table(table)
        engine.loads.refuse()
        if not dry_run:
            self._refuse_in_environment("erase what Kafka holds of a key")
        with self._cancellable(progress, urgent=not dry_run):
            return engine.erasing(self._lifecycle.dead_letters).run(
                found, key, history=history, dry_run=dry_run, progress=progress
            )

    def _refuse_in_environment(self, what: str) -> None:
        """Raise TerminalError where sources and topics are another one's."""
        if name := self._settings.environment:
            raise TerminalError(
                f"the environment `{name}` does not {what}: that is the production's. Next: do it there, "
                "then `headrace clone … --replace` here"
            )

    def changes(self, table: str, start: Start, reader: str | None) -> ChangePage:
        """A page of the changelog, in order; a named reader's position is remembered."""
        found = self._table(table)
        return changes.page(self._lifecycle.sessions().batch, found, self._catalog.readers, start, reader)

    def publish(self, table: str, *, dry_run: bool, progress: Progress) -> PublishResult:
        """Compare the published table with the rows, all of them, and mend what differs."""
        found, work = self._table(table), self._engine().publishers
        with self._cancellable(progress, urgent=False):
            return work.of(found).check(dry_run=dry_run)

    def readers(self, table: str | None = None) -> list[dict[str, Any]]:
        """Registered readers, how far they have come and how far behind they are."""
        name = None if table is None else str(self._table(table).name)
        return changes.listing(self._catalog.readers.all(name), self._registry())

    def drop_reader(self, reader: str, table: str) -> None:
        """Forget a reader: it holds nothing back any more."""
        self._catalog.readers.drop(str(self._table(table).name), reader)

    def dead_letters(self, table: str | None = None, *, settled: bool = False) -> list[dict[str, Any]]:
        """Messages that could not be applied, with offset and reason; their bytes in base64.

        Args:
            settled: with those that were replayed or dropped.
        """
        rows = self._lifecycle.dead_letters.rows(table)
        return [_shown(row) for row in rows if settled or row["outcome"] is None]

    def accounting(self, table: str) -> TableAccount:
        """Whether rows and events of the table add up."""
        found = accounting(self._table(table))
        self._catalog.evaluations.note(evaluations([found], None))
        return found

    def evaluations(self, table: str | None = None) -> list[CheckEvaluation]:
        """What each check of the table, or of all of them, found last, whoever asked for it."""
        return self._catalog.evaluations.all(None if table is None else str(self._table(table).name))

    def quarantine(self, table: str, *, progress: Progress) -> pa.Table:
        """The rows that QUARANTINE constraints keep out of the table, and which ones keep each."""
        found, work = self._table(table), self._engine().quarantine
        with self._cancellable(progress, urgent=False):
            return work.rows(found)

    def replay_dead_letters(self, table: str, at: Places, *, progress: Progress) -> DeadLettersResult:
        """Apply open dead letters where each would have been."""
        self._engine().loads.refuse()
        with self._cancellable(progress):
            return self._settlement().replay(self._table(table), at)

    def drop_dead_letters(self, table: str, at: Places, reason: str) -> DeadLettersResult:
        """Let open dead letters be."""
        return self._settlement().drop(self._table(table), at, reason)

    def _settlement(self) -> Settlement:
        engine = self._engine()
        return Settlement(
            engine.sessions,
            engine.flows,
            self._lifecycle.dead_letters,
            Formats.of(self._settings.schema_registry_url),
            engine.run_id,
        )

    def status(self) -> list[TableStatus]:
        if not self._lifecycle.up:
            return [status.initializing(n, self._lifecycle.waiting_for) for n in self.project.tables]
        engine = self._engine()
        ends = status.topic_ends(engine.topics, engine.registry)
        engine.counting.look(engine.registry)
        known = summaries(self._catalog.completions)
        rows = {row.name: row for row in self._catalog.rows()}  # at once: this is polled
        tables = ((table, rows.get(str(table.name))) for table in engine.registry)
        # One that `APPLY` lets go is in the catalog no more.
        return [self._status(table, row, ends, known) for table, row in tables if row is not None]

    def jvm(self) -> JvmStatus | None:
        """What the JVM has spent; None before its sources were found."""
        if not self._lifecycle.up:
            return None
        engine = self._engine()
        return jvm_status(engine.sessions.batch, sum(flow.micro_batches for flow in engine.flows))

    def explain(self, table: str, *, history: bool = False) -> Explanation:
        """Mode and strategy, and why; with `history` the decisions of past refreshes, newest first."""
        found = self._table(table)
        decided = self._catalog.decisions.of(found.name, status.DECISIONS)
        return status.explain(found, self._engine().flow(found.name), decided, history=history)

    def describe(self, table: str) -> dict[str, Any]:
        found = self._table(table)
        return status.describe_table(
            found,
            self._status(found, self._catalog.row(found.name), {}, summaries(self._catalog.completions)),
            self._catalog.alterations.of(found.name),
        )

    def partitions(self, table: str) -> list[dict[str, Any]]:
        """The complete partitions of a table, oldest first, and what came of each."""
        return partition_listing(self._table(table), self._catalog.completions)

    def _status(
        self, table: Table, row: CatalogRow, ends: Offsets, known: Mapping[str, Summary]
    ) -> TableStatus:
        engine, lifecycle = self._engine(), self._lifecycle
        registry = engine.registry
        letters = lifecycle.dead_letters.count(str(table.name))
        warnings = [
            *_of_letters(str(table.name), letters),
            *status.quarantine_warnings(table),
            *engine.supervisor.warnings(table),
            *engine.loads.warnings(table),
            *lifecycle.deployment.edited(table.name),
        ]
        alarms = [
            *engine.supervisor.alarms(table),
            *status.quarantine_alarms(table),
            *engine.publishers.alarms(table),
        ]
        found = status.table_status(
            table,
            engine.registry,
            row,
            ends,
            dead_letters=letters,
            warnings=warnings,
            alarms=alarms,
            published=engine.publishers.status(table),
        )
        return with_completion(found, table, registry, known, engine.completion)

    def show(self) -> list[dict[str, Any]]:
        return status.listing(self.status())

    def _engine(self) -> Engine:
        return self._lifecycle.engine()

    def _registry(self) -> Registry:
        """The tables that run; none before their source is there."""
        return self._engine().registry if self._lifecycle.up else Registry()

    def _table(self, name: str) -> Table:
        spec, registry = self.project.table(name), self._registry()
        if spec.name not in registry.tables:
            raise self._lifecycle.not_yet(f"`{name}` has")
        return registry[spec.name]

    def _cancellable(self, progress: Progress, *, urgent: bool = True) -> JobGroup:
        """
        Args:
            urgent: the flows give way to it. A proof of all tables may take its time.
        """
        sessions = self._lifecycle.sessions()
        return JobGroup(sessions.batch, progress, sessions.statements if urgent else None)


def _shown(letter: dict[str, Any]) -> dict[str, Any]:
    raw = {name: letter[name] for name in ("raw_key", "raw_value")}
    return letter | {n: None if v is None else base64.b64encode(v).decode() for n, v in raw.items()}


def _of_letters(table: str, count: int) -> list[str]:
    if not count:
        return []
    return [f"{count} messages could not be applied. Next: `headrace dead-letters list {table}` says why"]
