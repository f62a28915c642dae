"""Rewind: tables, and the frontiers from which they go on, back to one consistent point.

Nothing is cut off: a rewind is a new version whose changes bring back the rows of an older one, with that
one's frontier in its record. Readers of the changelog follow it like any other change; a table that had not
come further than the older version does not see what was taken back at all (`store.record.rewinds`).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
from pyspark.sql import DataFrame

from headrace.engine.backfill.correction import by_key
from headrace.engine.compaction.compaction import compact
from headrace.engine.rows.diff import count_kinds, diff_frame
from headrace.engine.spark.failpoints import failpoint
from headrace.engine.spark.persisted import Persisted
from headrace.engine.spark.sessions import Sessions
from headrace.engine.table.table import Registry, Table
from headrace.errors import HeadraceError, TransientError
from headrace.planner.policy.rewind import Bounds, Past, RewindRefused, Standing, Step, plan
from headrace.progress import Progress
from headrace.results import RewindResult, RewoundTable
from headrace.spec.model import TableName
from headrace.store.record.commits import Commit
from headrace.store.record.versions import recorded
from headrace.store.schema import DELETE, INSERT, REWIND, UPDATE_AFTER


@dataclass(frozen=True)
class Rewind:
    """
    Args:
        bounds: what Kafka holds of topics.
        suspend: lets a table stand still for good; whether it ran before.
        resume: lets it go on.
        paused: holds off whoever would resume a table. Raises TransientError where somebody has.
        published: called after a table's snapshot moved.
    """

    sessions: Sessions
    registry: Registry
    bounds: Callable[[Sequence[str]], Bounds]
    suspend: Callable[[Table], bool]
    resume: Callable[[Table], None]
    paused: Callable[[Table], AbstractContextManager[None]]
    published: Callable[[Table], None]
    run_id: str

    def run(
        self, table: Table, to: int | datetime, *, cascade: bool, dry_run: bool, progress: Progress
    ) -> RewindResult:
        """Bring the table back, and what came from its later rows, or only say what that would change.

        Afterwards the tables are suspended. Killed in between, the same call does the rest.

        Args:
            to: a version, or the time (with a zone) whose newest version is meant.
        Raises:
            RewindRefused: nothing was done.
            TransientError: a table was resumed meanwhile; the same call does the rest.
        """
        begun = time.monotonic()
        steps, was = self._plan(table, to, cascade)
        pending = any(not step.done for step in steps)
        if pending and not dry_run:
            steps, was = self._settled(table, to, cascade, steps, was)
        done = []
        for number, step in enumerate(steps):
            progress.report(f"{step.table}: back to version {step.to.version}", number, len(steps))
            done.append(self._carry_out(step, was[step.table], dry_run=dry_run))
        return RewindResult(
            table=str(table.name),
            dry_run=dry_run,
            tables=done,
            suspended=[t.table for t in done] if pending and not dry_run else [],
            seconds=time.monotonic() - begun,
        )

    def _plan(
        self, table: Table, to: int | datetime, cascade: bool
    ) -> tuple[list[Step], dict[str, dict[int, Commit]]]:
        """The steps, and all records of the tables by version."""
        standings, records = {}, {}
        for name in self._involved(table):
            found = self.registry[name]
            standing, past = self._standing(found)
            standings[str(name)], records[str(name)] = standing, past
        steps = plan(standings, str(table.name), to, cascade=cascade, now=datetime.now(UTC))
        return steps, records

    def _involved(self, table: Table) -> list[TableName]:
        """The table, all that reads it, directly or not, and what any of these reads; upstreams first."""
        below = {table.name}
        for other in self.registry:
            if below & set(self.registry.upstreams(other)):
                below.add(other.name)
        above = {name for t in below for name in self.registry.upstreams(self.registry[t])}
        return [t.name for t in self.registry if t.name in below | above]

    def _standing(self, table: Table) -> tuple[Standing, dict[int, Commit]]:
        store = table.store
        entries = {entry.commit.version: entry for entry in recorded(store.root)}
        head = store.commit
        past = [_past(e.at, store.known(e.commit)) for v, e in sorted(entries.items()) if v < head.version]
        records = {v: e.commit for v, e in entries.items() if v < head.version} | {head.version: head}
        if head.version:
            at = entries[head.version].at if head.version in entries else datetime.now(UTC)
            past.append(_past(at, head))
        source = table.spec.source
        standing = Standing(
            name=str(table.name),
            head=head.version,
            template=table.template,
            made_by=head.template,
            past=tuple(past),
            rewinds=head.rewinds,
            removed=store.retained.removed,
            readable=store.snapshot.oldest_readable(),
            upstreams=tuple(map(str, self.registry.upstreams(table))),
            topic=self.bounds([source.topic]) if source is not None else None,
            loaded=head.loaded,
        )
        return standing, records

    def _settled(
        self,
        table: Table,
        to: int | datetime,
        cascade: bool,
        steps: list[Step],
        was: dict[str, dict[int, Commit]],
    ) -> tuple[list[Step], dict[str, dict[int, Commit]]]:
        """The steps once no table among them goes on: what they came to before that counts."""
        stopped: dict[str, bool] = {}
        while waiting := [s.table for s in steps if s.table not in stopped]:
            for name in waiting:
                stopped[name] = self.suspend(self.registry[TableName.parse(name)])
            try:
                steps, was = self._plan(table, to, cascade)
            except HeadraceError:
                for name in [n for n, ran in stopped.items() if ran]:
                    with suppress(HeadraceError):  # its state says why it does not run
                        self.resume(self.registry[TableName.parse(name)])
                raise
        return steps, was

    def _carry_out(self, step: Step, records: dict[int, Commit], *, dry_run: bool) -> RewoundTable:
        table = self.registry[TableName.parse(step.table)]
        counts: Counter[str] = Counter()
        if not step.done:
            with Persisted() as persist:
                changes = persist(_changes(self.sessions, table, step, persist))
                counts = count_kinds(changes)
                if not dry_run:
                    self._commit(table, step, records[step.to.version], changes, counts)
            if not dry_run:
                failpoint("rewind.after_commit")
        if not dry_run and compact(self.sessions.batch, table, run_id=self.run_id):
            self.published(table)
        return RewoundTable(
            table=step.table,
            from_version=step.current,
            to_version=step.to.version,
            committed_at=step.to.at,
            version=table.store.version,
            done=step.done,
            inserted=counts[INSERT],
            updated=counts[UPDATE_AFTER],
            deleted=counts[DELETE],
            frontier=records[step.to.version].frontier,
        )

    def _commit(
        self, table: Table, step: Step, was: Commit, changes: DataFrame, counts: Counter[str]
    ) -> None:
        store = table.store
        with self.paused(table), store.writing:
            head = store.commit
            if head.version != step.current:
                raise TransientError(
                    f"`{table.name}` has changed meanwhile. Next: the same rewind once more does the rest"
                )
            record = _record(head, was, table, self.run_id)
            table.run.covered = {}
            if sum(counts.values()) > table.limits.corrections:
                store.append_large(changes, record, origin=REWIND, kinds=counts)
            else:
                rows: pa.Table = changes.toArrow()
                store.append(rows, record, origin=REWIND)


def _past(at: datetime, commit: Commit) -> Past:
    return Past(commit.version, at, commit.template, commit.upstreams, commit.offsets)


def _changes(sessions: Sessions, table: Table, step: Step, persist: Persisted) -> DataFrame:
    """What brings back the rows: stored columns, a stg row's sequence too, and `_kind`."""
    store, spark = table.store, sessions.batch
    changed = store.changelog.frame(spark, step.to.version, step.current)
    keys = persist(changed.select(*store.schema.key).distinct())
    held, wanted = (
        by_key(store.frame(spark, version=version), keys) for version in (step.current, step.to.version)
    )
    return diff_frame(held, wanted, store.schema)


def _record(head: Commit, was: Commit, table: Table, run_id: str) -> Commit:
    """The older version's record, as the newest one's."""
    version = head.version + 1
    return was.next(
        "rewind",
        run_id,
        version=version,
        template=table.template,
        rewinds=(*head.rewinds, (version, was.version)),
    )


__all__ = ["Rewind", "RewindRefused"]
