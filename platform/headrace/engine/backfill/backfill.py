"""Backfill: recompute partitions by the same SQL while streams run, exactly and quietly.

The batch result at the table's recorded frontier is compared with what the table held there. Only what
differs goes to the changelog, marked as a correction. Where the stream has gone on meanwhile, the differing
keys are compared once more at the frontier that it has reached. Then the partitions are overwritten.
"""

from __future__ import annotations

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
from headrace.engine.compaction.compaction import compact
from headrace.engine.refresh.constraints import check_changes
from headrace.engine.rows.batch_rows import batch_rows, complete, in_range
from headrace.engine.rows.diff import count_kinds
from headrace.engine.spark.persisted import Persisted
from headrace.engine.spark.sessions import Sessions
from headrace.engine.table.immutable import mutable_range, nothing_left, refuse
from headrace.engine.table.offline_bound import check_written, through_after
from headrace.engine.table.table import Registry, Table, is_stg
from headrace.errors import TerminalError, TransientError
from headrace.progress import Progress
from headrace.results import RefreshResult
from headrace.spec.partitions.label_range import LabelRange
from headrace.spec.partitions.labels import label_range
from headrace.store.frames import local
from headrace.store.record.commits import Commit, of_version
from headrace.store.record.frontier import Offsets, merge_offsets
from headrace.store.schema import BACKFILL, DELETE, INSERT, KIND, STREAM, UPDATE_AFTER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def backfill(
    sessions: Sessions,
    registry: Registry,
    table: Table,
    labels: LabelRange | None,
    *,
    expected: DataFrame | None = None,
    version: int | None = None,
    offsets: Offsets | None = None,
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
        offsets: of a stg table that rests: where its topic goes on after `expected`.
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
            offsets=offsets,
            frontier=frontier,
            complete_through=complete_through,
            run_id=run_id,
            progress=progress,
        )
    with table.store.writing:  # between two refreshes: version and frontier belong together
        commit, reached, head = table.store.commit, table.reached, table.warm_head()
        heads = warm_heads(registry, table) if expected is None else {}
    now = frontier
    if labels is None and expected is None and frontier is None:
        now = _restart(registry, table)
    frontier = now or reached
    moves = immutable_before is not None or complete_through is not None
    if not moves and (done := nothing_left(table, labels)) is not None:
        return done
    through = through_after(table, labels, complete_through)
    bound = commit.immutable_before if immutable_before is None else immutable_before
    labels = mutable_range(table, bound, labels)
    at = commit.version if version is None else version
    progress.report(f"{table.name}: running the query for {labels or 'everything'}")
    if expected is None:
        expected = batch_rows(
            spark,
            registry,
            table,
            frontier,
            labels=labels,
            complete_through=through,
            held=held_rows(registry, table, heads, frontier, labels),
        )
    else:
        expected = in_range(complete(expected, table, through), table, labels)
    with Persisted() as persist:
        # What the batch writes as the table's only writer is no correction to those that read it.
        origin = BACKFILL if complete_through is None else STREAM
        work = _Correction(
            sessions,
            registry,
            table,
            at=at,
            frontier=frontier,
            run_id=run_id,
            persist=persist,
            was_through=commit.complete_through,
            complete_through=through,
            origin=origin,
            restart=now is not None,
            offsets=offsets,
            immutable_before=immutable_before,
        )
        changes: pa.Table | DataFrame
        if (few := few_corrections(spark, table, head, at, expected, labels)) is not None:
            changes, count, rows = few.changes, few.changes.num_rows, few.rows
        else:
            held = table.store.frame(spark, version=at)
            changes = once(corrections(table, held, expected, labels, persist), expected, table, persist)
            check_changes(changes, table)
            count = changes.count()
            rows = held.select(*table.store.schema.key).distinct().count() if count else 0
        progress.report(f"{table.name}: {count} correcting rows")
        counts = work.commit(changes, count, work.miscounted(rows) if count else 0)
    progress.report(f"{table.name}: overwriting the partitions")
    partitions, rows = overwrite(spark, table, labels, run_id=run_id)
    return RefreshResult(
        table=str(table.name),
        start=labels.start if labels else "",
        end=labels.clip(last=through).end if labels else "",
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
    """Commits corrections that were found at changelog version `at` and upstream versions `frontier`."""

    sessions: Sessions
    registry: Registry
    table: Table
    at: int
    frontier: dict[str, int]
    run_id: str
    persist: Persisted
    was_through: str
    complete_through: str
    """The bound of complete partitions, as it was found and from now on; "" for none."""
    origin: str = BACKFILL
    restart: bool = False
    """Whether the table goes on from `frontier`, which is later than what it has reached."""
    offsets: Offsets | None = None
    immutable_before: str | None = None
    """The bound that the correction lowers, None where it leaves it."""

    def miscounted(self, rows: int) -> int:
        """Of `rows` that the table holds those beyond what its commits count: nobody counts damage."""
        known = of_version(self.table.store.changelog.path, self.at)
        return rows - known.rows if known is not None else 0

    def commit(self, changes: pa.Table | DataFrame, count: int, miscounted: int) -> Counter[str]:
        """Append what still differs. Returns rows by kind; the table's stream waits meanwhile."""
        store, origin = self.table.store, self.origin
        # Where the template differs or the table starts again, the range is the whole table.
        moves = self.immutable_before is not None or self.complete_through != self.was_through
        alone = self.restart or moves
        adopts = alone or store.commit.template != self.table.template
        if not count and not adopts:
            return Counter()
        with store.writing:
            head = store.commit
            if (alone and head.version != self.at) or head.complete_through != self.was_through:
                raise TransientError(f"`{self.table.name}` has changed meanwhile. Next: refresh it again")
            moved = not alone and (head.version != self.at or self.table.reached != self.frontier)
            if moved:
                changes = self._renewed(self._frame(changes), head)
            record = self._record(head)
            if count > self.table.limits.corrections:
                changes = changes if isinstance(changes, pa.Table) else self.persist(changes)
                counts = count_kinds(changes)
                store.append_large(changes, record, origin=origin, kinds=counts, miscounted=miscounted)
                compact(self.sessions.batch, self.table, run_id=self.run_id)
                return counts
            rows = changes if isinstance(changes, pa.Table) else changes.toArrow()
            counts = count_kinds(rows)
            # Without a row too: what was wrong may be right at the later frontier, which must be recorded.
            if rows.num_rows or adopts or moved:
                store.append(rows, record, origin=origin, miscounted=miscounted)
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
            since = store.changelog.frame(spark, self.at, head.version, tombstones=True)
            return changes.join(since.select(*key).distinct(), key, "left_anti")
        # A key that was wrong may have been computed again since, to what the table wrongly held: then no
        # change row tells of it. So all of them are compared anew, wherever their rows are.
        wrong = changes.select(*key).distinct()
        rows = batch_rows(
            spark, self.registry, self.table, self.table.reached, complete_through=self.complete_through
        )
        wanted = by_key(rows, wrong)
        held = by_key(store.frame(spark, version=head.version), wrong)
        changes = corrections(self.table, held, wanted, None, self.persist)
        changes = once(changes, wanted, self.table, self.persist)
        check_changes(changes, self.table)
        return changes

    def _record(self, head: Commit) -> Commit:
        """The record of a correction. The frontier is where the stream found nothing more to do."""
        # Rows that came past the topic are by the old text: it goes on after those of the new one.
        anew = bool(head.loaded) and self.offsets is not None
        return head.next(
            "backfill" if self.origin == BACKFILL else "stream",
            self.run_id,
            loaded=head.version + 1 if anew else head.loaded,
            loaded_at=(self.offsets or {}) if anew else head.loaded_at,
            upstreams=self.frontier if self.restart else self.table.reached,
            offsets=head.offsets if self.offsets is None else merge_offsets(head.offsets, self.offsets),
            complete_through=self.complete_through,
            template=self.table.template,
            immutable_before=(
                head.immutable_before if self.immutable_before is None else self.immutable_before
            ),
        )


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
    if table.store.version and table.store.commit.template != table.template:
        raise TerminalError(
            f"the definition of `{table.name}` changed since version {table.store.version}: a part of it "
            f"cannot follow the new text alone. Next: `headrace refresh {table.name} --all`"
        )


def _restart(registry: Registry, table: Table) -> dict[str, int] | None:
    """The upstreams' present versions, where the table cannot go on from those that it has reached.

    Retention has removed changes that it has not seen, or its text is a new one, which may read others. Such
    a table rests, and nothing but its whole query at a later cut helps.
    """
    upstreams = {str(n): u.store for n, u in registry.upstreams(table).items()}
    seen = all(table.reached.get(n, 0) >= s.changelog.removed for n, s in upstreams.items())
    if seen and table.store.commit.template == table.template:
        return None
    return registry.versions(table)
