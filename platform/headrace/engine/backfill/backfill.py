"""Backfill: recompute partitions by the same SQL while streams run, exactly and quietly.

The batch result at the table's recorded frontier is compared with what the table held there. Only what
differs goes to the changelog, marked as a correction. Where the stream has gone on meanwhile, the differing
keys are compared once more at the frontier that it has reached. Then the partitions are overwritten.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.engine.backfill.correction import by_key, corrections, once
from headrace.engine.backfill.corrections_arrow import few_corrections
from headrace.engine.backfill.held_rows import held_rows, warm_heads
from headrace.engine.backfill.overwrite import overwrite
from headrace.engine.backfill.rebuild import rebuild
from headrace.engine.backfill.reread import Reread
from headrace.engine.compaction.compaction import compact
from headrace.engine.refresh.audit import audit, audit_batch
from headrace.engine.refresh.constraints import check_changes
from headrace.engine.rows.batch_rows import batch_rows, complete, in_range
from headrace.engine.rows.diff import count_kinds
from headrace.engine.spark.failpoints import failpoint
from headrace.engine.spark.persisted import Persisted
from headrace.engine.spark.sessions import Sessions
from headrace.engine.table.immutable import nothing_left, refuse
from headrace.engine.table.offline_bound import check_written
from headrace.engine.table.table import Registry, Table, is_stg
from headrace.errors import TerminalError, TransientError
from headrace.planner.policy.backfill import BackfillPlan, TableState, plan_backfill
from headrace.progress import Progress
from headrace.results import RefreshResult
from headrace.spec.partitions.label_range import LabelRange
from headrace.spec.partitions.labels import label_range
from headrace.store.frames import local
from headrace.store.record.commits import Commit, of_version
from headrace.store.schema import BACKFILL, DELETE, INSERT, KIND, STREAM, UPDATE_AFTER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)


def backfill(
    sessions: Sessions,
    registry: Registry,
    table: Table,
    labels: LabelRange | None,
    *,
    expected: DataFrame | None = None,
    version: int | None = None,
    among: DataFrame | None = None,
    reread: Reread | None = None,
    frontier: dict[str, int] | None = None,
    immutable_before: str | None = None,
    complete_through: str | None = None,
    run_id: str,
    progress: Progress,
) -> RefreshResult:
    """Recompute a range (everything where None) and overwrite its partitions.

    Immutable partitions are left out of it, and in a table that the batch alone writes those that it has not
    written yet.

    Args:
        expected: what the range should hold at `version`; by default the table's SQL at its frontier.
        version: the changelog version that `expected` belongs to.
        among: keys of the rows that are compared and corrected, none of the others; the range is not
            overwritten then.
        reread: of a stg table: what comes with `expected`.
        frontier: of a derived table that rests: the upstream versions of `expected`.
        immutable_before: of a table that rests: the bound from now on, lower than before.
        complete_through: of a table that the batch alone writes: the last partition that it has from now on,
            not before the present one.
    Raises:
        ConstraintViolated, Cancelled: nothing was committed.
    """
    begun = time.monotonic()
    spark = sessions.batch
    if table.reshaped:
        return rebuild(
            sessions,
            registry,
            table,
            expected=expected,
            reread=reread,
            frontier=frontier,
            complete_through=complete_through,
            run_id=run_id,
            progress=progress,
        )
    with table.store.writing:  # between two refreshes: version and frontier belong together
        state, head = _state(registry, table), table.warm_head()
        heads = warm_heads(registry, table) if expected is None else {}
    plan = plan_backfill(
        table.spec,
        state,
        labels,
        rows_given=expected is not None,
        version=version,
        frontier=frontier,
        immutable_before=immutable_before,
        complete_through=complete_through,
    )
    moves = immutable_before is not None or complete_through is not None
    if not moves and (done := nothing_left(table, labels)) is not None:
        return done
    progress.report(f"{table.name}: running the query for {plan.labels or 'everything'}")
    log.info("backfill %s", plan)
    labels = plan.labels
    if expected is None:
        expected = batch_rows(
            spark,
            registry,
            table,
            plan.frontier,
            labels=labels,
            complete_through=plan.complete_through,
            held=held_rows(registry, table, heads, plan.frontier, labels),
        )
    else:
        expected = in_range(complete(expected, table, plan.complete_through), table, labels)
    with Persisted() as persist:
        if among is None:
            expected = audit_batch(table, expected, persist)
        work = _Correction(sessions, registry, table, plan, reread, run_id, persist)
        changes: pa.Table | DataFrame
        if (few := few_corrections(spark, table, head, plan.version, expected, labels)) is not None:
            changes, count, rows = few.changes, few.changes.num_rows, few.rows
        else:
            held = table.store.frame(spark, version=plan.version)
            lacking = reread.sequence if reread is not None else table.store.commit.high
            compared = held if among is None else by_key(held, among)
            changes = corrections(table, compared, expected, labels, persist, lacking=lacking)
            changes = once(changes, expected, table, persist)
            check_changes(changes, table)
            count = changes.count()
            rows = held.select(*table.store.schema.key).distinct().count() if count else 0
        progress.report(f"{table.name}: {count} correcting rows")
        counts = work.commit(changes, count, work.miscounted(rows) if count else 0)
    failpoint("backfill.corrected")
    if among is None:
        progress.report(f"{table.name}: overwriting the partitions")
        partitions, rows = overwrite(spark, table, labels, run_id=run_id)
    else:
        partitions, rows = [], among.distinct().count()
    return RefreshResult(
        table=str(table.name),
        start=labels.start if labels else "",
        end=labels.clip(last=plan.complete_through).end if labels else "",
        partitions=partitions,
        rows=rows,
        inserted=counts[INSERT],
        updated=counts[UPDATE_AFTER],
        deleted=counts[DELETE],
        version=table.store.version,
        seconds=time.monotonic() - begun,
    )


@dataclass(frozen=True)
class _Correction:
    """Commits the corrections that a plan has found.

    Args:
        reread: of a stg table: what comes with its rows.
    """

    sessions: Sessions
    registry: Registry
    table: Table
    plan: BackfillPlan
    reread: Reread | None
    run_id: str
    persist: Persisted

    @property
    def origin(self) -> str:
        """What the batch writes as the table's only writer is no correction to those that read it."""
        return STREAM if self.plan.sole_writer else BACKFILL

    def miscounted(self, rows: int) -> int:
        """Of `rows` that the table holds those beyond what its commits count: nobody counts damage."""
        known = of_version(self.table.store.changelog.path, self.plan.version)
        return rows - known.rows if known is not None else 0

    def commit(self, changes: pa.Table | DataFrame, count: int, miscounted: int) -> Counter[str]:
        """Append what still differs. Returns rows by kind; the table's stream waits meanwhile."""
        store, plan = self.table.store, self.plan
        # Where the template differs or the table goes on elsewhere, the range is the whole table.
        restarts = self.reread is not None and bool(self.reread.offsets)
        adopts = plan.exclusive or restarts or store.commit.template != self.table.template
        if not count and not adopts:
            return Counter()
        with store.writing:
            head = store.commit
            later = head.version != plan.version
            if (plan.exclusive and later) or head.complete_through != plan.was_complete_through:
                raise TransientError(f"`{self.table.name}` has changed meanwhile. Next: refresh it again")
            moved = not plan.exclusive and (later or self.table.reached != plan.frontier)
            if moved:
                changes = self._renewed(self._frame(changes), head)
            audit(self.sessions.batch, self.table, changes)
            record = self._record(head)
            if count > self.table.limits.corrections:
                changes = changes if isinstance(changes, pa.Table) else self.persist(changes)
                counts = count_kinds(changes)
                store.append_large(changes, record, origin=self.origin, kinds=counts, miscounted=miscounted)
                compact(self.sessions.batch, self.table, run_id=self.run_id)
                return counts
            rows = changes if isinstance(changes, pa.Table) else changes.toArrow()
            counts = count_kinds(rows)
            # Without a row too: what was wrong may be right at the later frontier, which must be recorded.
            if rows.num_rows or adopts or moved:
                store.append(rows, record, origin=self.origin, miscounted=miscounted)
            return counts

    def _frame(self, changes: pa.Table | DataFrame) -> DataFrame:
        if not isinstance(changes, pa.Table):
            return changes
        columns = (*self.table.store.schema.stored, (KIND, "string"))
        return local(self.sessions.batch, changes, columns)

    def _renewed(self, changes: DataFrame, head: Commit) -> DataFrame:
        """The corrections as they are needed at the stream's present version."""
        store, spark = self.table.store, self.sessions.batch
        key = list(store.schema.key)
        if is_stg(self.table):
            # What the source said since is right, deletes of rows that were lost too.
            since = store.changelog.frame(spark, self.plan.version, head.version, tombstones=True)
            return changes.join(since.select(*key).distinct(), key, "left_anti")
        # A key that was wrong may have been computed again since, to what the table wrongly held: then no
        # change row tells of it. So all of them are compared anew, wherever their rows are.
        wrong = changes.select(*key).distinct()
        rows = batch_rows(
            spark, self.registry, self.table, self.table.reached, complete_through=self.plan.complete_through
        )
        wanted = by_key(rows, wrong)
        held = by_key(store.frame(spark, version=head.version), wrong)
        changes = corrections(self.table, held, wanted, None, self.persist)
        changes = once(changes, wanted, self.table, self.persist)
        check_changes(changes, self.table)
        return changes

    def _record(self, head: Commit) -> Commit:
        """The record of a correction. The frontier is where the stream found nothing more to do."""
        record = head.next(
            "backfill" if self.origin == BACKFILL else "stream",
            self.run_id,
            upstreams=dict(self.plan.frontier) if self.plan.restarts else self.table.reached,
            complete_through=self.plan.complete_through,
            template=self.table.template,
            immutable_before=(
                head.immutable_before if self.plan.immutable_before is None else self.plan.immutable_before
            ),
        )
        return record if self.reread is None else self.reread.record(record)


def check_range(table: Table, labels: LabelRange | None) -> None:
    """Refuse labels of the wrong format, what the batch has not written yet where it writes alone, and a part
    of a table whose text is a new one.

    Raises:
        SpecError: a bound of the wrong format, or start > end.
        TerminalError: all of it is immutable or not complete, or only the whole table can follow its new
            text.
    """
    if labels is not None:
        label_range(table.spec, labels)
    check_written(table, labels)
    if labels is None:
        return
    refuse(table, labels.end)
    check_text(table)


def check_text(table: Table) -> None:
    """Raises TerminalError where the table's rows are of another text: then all of them must be computed."""
    if table.store.version and table.store.commit.template != table.template:
        raise TerminalError(
            f"the definition of `{table.name}` changed since version {table.store.version}: a part of it "
            f"cannot follow the new text alone. Next: `headrace refresh {table.name} --all`"
        )


def _state(registry: Registry, table: Table) -> TableState:
    commit, reached = table.store.commit, table.reached
    upstreams = {str(n): u.store for n, u in registry.upstreams(table).items()}
    # Changes that retention has removed, and other upstreams in a new text, are met by the whole query only.
    seen = all(reached.get(n, 0) >= s.changelog.removed for n, s in upstreams.items())
    return TableState(
        version=commit.version,
        reached=reached,
        upstreams={n: s.version for n, s in upstreams.items()},
        continues=seen and commit.template == table.template,
        immutable_before=commit.immutable_before,
        complete_through=commit.complete_through,
    )
