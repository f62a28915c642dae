"""Creating and opening a materialized table: changelog + snapshot + what is still only in the changelog."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import TerminalError
from headrace.locks import OrderedLock, Rank
from headrace.spec.model import TableName
from headrace.spec.partitions.label_range import LabelRange
from headrace.storage.location import Location
from headrace.store.changelog import Changelog
from headrace.store.creation import create, describe, fits
from headrace.store.delta.parts import Part, commit_parts
from headrace.store.delta.retained import Retained
from headrace.store.frames import local
from headrace.store.live.deletes import Deletes
from headrace.store.live.head import Cold, Head
from headrace.store.live.key_joins import anti_join, semi_join
from headrace.store.live.lookup import SnapshotIndex
from headrace.store.live.tail import Tail
from headrace.store.recent import Recent
from headrace.store.record.account import counted
from headrace.store.record.commits import Commit, latest, records
from headrace.store.record.watermark import Watermark
from headrace.store.schema import (
    INSERT,
    KIND,
    STREAM,
    UPDATE_AFTER,
    VERSION,
    TableSchema,
    arrow_schema,
    spark_type,
)
from headrace.store.snapshot import Pin, Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TAIL_LIMIT = 200_000
"""Changed keys that the driver holds; a longer tail is compacted before anything else."""


LABELS_LIMIT = 1_000
"""Partitions that a commit's record names."""

RECENT_COMMITS = 1_000
"""The newest records that stay in memory."""


class StoredTable:
    """One materialized table on disk. One writer, many readers; thread-safe.

    Args:
        known_as: other hashes that records may have of this table's definition, and its template.
    """

    def __init__(
        self, name: TableName, root: Location, schema: TableSchema, known_as: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.known_as = known_as or {}
        self.schema = schema
        self.root = root / name.layer / name.table
        self.changelog = Changelog(self.root / "changelog", schema)
        self.snapshot = Snapshot(self.root / "snapshot", schema)
        self.deletes = Deletes(self.root / "tombstones", self.changelog, schema)
        self.retained = Retained()
        self.writing = OrderedLock(Rank.WRITE, name)
        self.compacting = OrderedLock(Rank.COMPACT, name)
        self._lock = threading.Lock()
        self._commit = Commit(str(name), "create", 0)
        self._recent: Recent[Commit | None] = Recent(RECENT_COMMITS)
        self._tail = Tail(schema)
        self._pin = Pin(0, 0, 0)
        self._index: SnapshotIndex | None = None
        self._cold_through = -1
        self.watermark = Watermark()
        self._listening: frozenset[threading.Event] = frozenset()
        self.fits = True
        """Whether its columns on disk are those of its schema: else no row can be read."""

    @property
    def commit(self) -> Commit:
        """The newest commit of the changelog: version and frontier."""
        return self._commit

    @property
    def version(self) -> int:
        return self._commit.version

    @property
    def pin(self) -> Pin:
        return self._pin

    def records(self, after: int, through: int) -> list[Commit | None]:
        """As `commits.records`; the log is read only for what this process has not written lately."""
        with self._lock:
            kept = self._recent.between(after, through)
        return kept if kept is not None else records(self.changelog.path, after, through)

    @property
    def tail_rows(self) -> int:
        return len(self._tail)

    def known(self, commit: Commit) -> Commit:
        """The record with the template by which the definition is known now."""
        return replace(commit, template=self.known_as.get(commit.template, commit.template))

    def create(self, template: str, definition: str = "", immutable_before: str = "") -> None:
        """Create both Delta tables where they do not exist; the snapshot's properties say what they are."""
        create(self, template, immutable_before)
        describe(self, definition)

    def close(self) -> None:
        """Refuse every further write: another definition of the table has taken this one's place."""
        with self.writing, self.compacting:
            self.changelog.closed = self.snapshot.closed = True

    def open(self) -> None:
        """Read the newest commit back from the log, and the tail after the snapshot into the driver.

        Whoever reads the table meanwhile has it as it was before, or as it is then.
        """
        with self.compacting:  # else a snapshot could come between looking for the newest and using it
            found = latest(self.changelog.path)
            if found is None:
                raise FileNotFoundError(f"{self.changelog.path} does not exist")
            commit, pin, tail, cold = self.known(found[1]), self.snapshot.newest(), Tail(self.schema), -1
            self.changelog.rewinds = commit.rewinds
            self.watermark.move(commit.version, commit.watermark_ms)
            self.changelog.reopen()
            self.use(Retained.load(self.root))
            self.deletes.forget()
            self.fits, index = fits(self), self._index
            if not self.fits:
                pin = Pin(pin.delta, commit.version, commit.version)  # nothing to compact
            else:
                index = self.open_index(pin)
                if self.changelog.count(pin.compacted, commit.version) <= TAIL_LIMIT:
                    tail.load(self.changelog.read(pin.compacted, commit.version), commit.version)
                else:
                    cold = commit.version
            with self._lock:
                self._commit, self._pin, self._index = commit, pin, index
                self._recent.clear()
                self._tail, self._cold_through = tail, cold

    @property
    def cold(self) -> bool:
        """True where the tail is too long for the driver: only `frame` reads work until it is compacted."""
        return self._cold_through > self._pin.compacted

    def use(self, retained: Retained) -> None:
        """Refuse reads of what retention removes."""
        self.retained = self.snapshot.retained = retained
        self.changelog.removed = retained.removed

    def open_index(self, pin: Pin) -> SnapshotIndex:
        return SnapshotIndex(
            self.snapshot.path, pin.delta, arrow_schema(self.schema.stored), self.schema.partition
        )

    def head(self) -> Head:
        """Raises Cold where the table is cold."""
        with self._lock:
            return self._head()

    def check_fits(self) -> None:
        """Raises TerminalError where another definition has made its rows."""
        if not self.fits:
            raise TerminalError(
                f"the rows of `{self.name}` have other columns than its definition. Next: `headrace apply`"
            )

    def _head(self) -> Head:
        self.check_fits()
        assert self._index is not None, "the table is not open"
        if self.cold:
            raise Cold(f"`{self.name}` must be compacted before rows are looked up in it")
        return Head(self._commit, self._pin, self._index, self._tail.view(), self.schema.key)

    def head_index(self) -> SnapshotIndex:
        """The pinned snapshot's files; also where the table is cold."""
        assert self._index is not None, "the table is not open"
        return self._index

    def append(
        self,
        changes: pa.Table,
        commit: Commit,
        *,
        origin: str,
        tombstones: pa.Table | None = None,
        miscounted: int = 0,
    ) -> None:
        """Commit net changes from the driver and fold them into the tail.

        Args:
            miscounted: rows that the table held beyond what its last commit says.
        """
        commit = self._counted(commit, Counter(changes.column(KIND).to_pylist()), miscounted)
        commit = replace(commit, partitions=self._labels(changes))
        self.changelog.append(changes, commit, origin=origin, tombstones=tombstones)
        self._follow_rewind(commit)
        if commit.mode == "rewind":
            self.deletes.forget()  # of those known it has taken some back
        elif self.schema.sequenced:
            self.deletes.add(changes, tombstones)
        self._made(commit, changes)

    def _made(self, commit: Commit, changes: pa.Table | None = None) -> None:
        """The commit is the changelog's newest: fold its changes into the tail, or be cold without them."""
        with self._lock:
            if changes is not None:
                self._tail.add(changes, commit.version)
            else:
                self._cold_through = commit.version
            self._commit = commit
            self._recent.add(commit.version, commit)
        for heard in self._listening:
            heard.set()

    def listen(self, heard: threading.Event) -> None:
        """Set the event after each commit from now on."""
        self._listening |= {heard}

    def note(self, commit: Commit) -> None:
        """Commit a record without rows."""
        schema = arrow_schema(self.schema.stored).append(pa.field(KIND, pa.string()))
        self.append(schema.empty_table(), commit, origin=STREAM)

    def load(self, rows: pa.Table, commit: Commit, snapshot: Commit, *, tombstones: pa.Table | None) -> None:
        """Commit the first rows of an empty table from the driver: changelog, then snapshot.

        Args:
            snapshot: record of the snapshot's commit.
        """
        inserted = rows.append_column(KIND, pa.array([INSERT] * rows.num_rows, pa.string()))
        commit = counted(self._commit, commit, {INSERT: rows.num_rows})
        self.changelog.append(inserted, commit, origin=STREAM, tombstones=tombstones)
        self.deletes.forget()
        self._made(commit)
        with self.compacting:
            self.snapshot.overwrite_local(rows, snapshot, partitions=None)
            self.adopt(self.snapshot.newest(), rows=rows)

    def load_parts(self, parts: Sequence[Part], commit: Commit, snapshot: Commit) -> None:
        """Commit the files of an empty table's first rows: changelog, then snapshot.

        Args:
            snapshot: record of the snapshot's commit.
        """
        commit = counted(self._commit, commit, {INSERT: sum(part.rows for part in parts)})
        with self.compacting:
            self.changelog.add([part.changelog for part in parts], commit)
            self.deletes.forget()
            self._made(commit)
            commit_parts(self.snapshot.path, [a for part in parts for a in part.snapshot], snapshot)
            self.adopt(self.snapshot.newest())

    def _counted(self, commit: Commit, kinds: Mapping[str, int], miscounted: int = 0) -> Commit:
        rewinds = commit.rewinds or self._commit.rewinds
        time = commit.watermark_ms if commit.mode == "rewind" else self.watermark.newest
        commit = counted(self._commit, commit, kinds, miscounted)
        return replace(commit, rewinds=rewinds, watermark_ms=time)

    def _follow_rewind(self, commit: Commit) -> None:
        self.changelog.rewinds = commit.rewinds
        if commit.mode == "rewind":
            self.watermark.go_back(commit.version, commit.watermark_ms)

    def _labels(self, changes: pa.Table) -> tuple[str | None, ...] | None:
        """The partitions of these rows, old places of moved ones too; None where they are many."""
        if self.schema.partition is None:
            return None
        labels = changes.column(self.schema.partition).unique().to_pylist()
        return tuple(sorted(labels, key=str)) if len(labels) <= LABELS_LIMIT else None

    def append_large(
        self,
        changes: pa.Table | DataFrame,
        commit: Commit,
        *,
        origin: str,
        kinds: Mapping[str, int],
        tombstones: pa.Table | DataFrame | None = None,
        miscounted: int = 0,
    ) -> None:
        """Commit more net changes than a tail holds. The table is cold until it is compacted.

        Args:
            changes: written from the driver where they are there, else by a Spark job.
            kinds: number of change rows by kind.
            miscounted: see `append`.
        """
        commit = replace(self._counted(commit, kinds, miscounted), partitions=None)
        if isinstance(changes, pa.Table):
            buried = (
                tombstones if tombstones is None or isinstance(tombstones, pa.Table) else tombstones.toArrow()
            )
            self.changelog.append(changes, commit, origin=origin, tombstones=buried)
        else:
            self.changelog.append_frame(changes, commit, origin=origin, tombstones=tombstones)
        self._follow_rewind(commit)
        self.deletes.forget()
        self._made(commit)

    def adopt(
        self, pin: Pin, *, rows: pa.Table | None = None, partitions: Collection[str] | None = None
    ) -> None:
        """Use a newer snapshot, and drop from the tail what it holds.

        Args:
            rows: stored columns of the rows of `partitions` (all where None), where the caller has them.
        """
        index = self.open_index(pin)
        if self._index is None:
            index.warm()
        else:
            index.inherit(self._index, rows, partitions)
        with self._lock:
            self._pin, self._index = pin, index
            self._tail.cut(pin.compacted)

    def reread(self) -> bool:
        """Use the snapshot as it lies on disk, whoever wrote it last. True where that is another one."""
        with self.compacting:
            pin = self.snapshot.newest()
            if pin.delta == self._pin.delta:
                return False
            self.adopt(pin)
            return True

    def frame(self, spark: SparkSession, *, version: int | None = None) -> DataFrame:
        """The table's rows at a changelog version (now where None) as a Spark frame, stored columns.

        Live read at version v = snapshot ⊎ changelog tail, latest row per key.
        """
        self.check_fits()
        with self._lock:  # one view: a compaction or a commit may come between two looks
            head = None if self.cold else self._head()
            newest, pin = self._commit.version, self._pin
        if head is not None and version in (None, newest):
            return self._live(spark, head)
        version = newest if version is None else version
        if pin.through > version:
            pin = self.snapshot.pin_for(version)
        base = self.snapshot.frame(spark, pin)
        if pin.compacted == version:
            return base
        changes = self.changelog.frame(spark, pin.compacted, version)
        if pin.compacted == 0 and version == 1 and not self.head_index().count(None):
            return changes.select(*self.schema.stored_names)  # the first load: nothing to fold it into
        return fold(base, changes, self.schema)

    def read(self, version: int, labels: LabelRange | None = None) -> pa.Table:
        """As `frame`, in the driver, out of the files and nothing else. `schema.joinable` holds.

        Args:
            labels: only the rows of these partitions, where the table has any.
        """
        self.check_fits()
        with self._lock:
            pin = self._pin
        if pin.through > version:
            pin = self.snapshot.pin_for(version)
        index, column = self.open_index(pin), self.schema.partition  # a new index has no rows in memory
        if labels is None or column is None:
            rows = index.read()
        else:
            kind = arrow_schema(self.schema.stored).field(column).type
            rows = index.where(pc.field(column).isin(pa.array(labels.among(index.partitions), kind)))
        if pin.compacted < version:
            rows = fold_local(rows, self.changelog.read(pin.compacted, version), self.schema)
            if labels is not None and column is not None:  # what has changed may lie anywhere
                changed = labels.among(rows.column(column).unique().to_pylist())
                rows = semi_join(rows, (column,), {(label,) for label in changed})
        return rows

    def loaded_rows(self, spark: SparkSession) -> DataFrame:
        """The rows that came past the topic. Raises NeedsResync where retention has removed them."""
        if self._commit.loaded_at:  # it began again with them
            return self.frame(spark, version=self._commit.loaded)
        changes = self.changelog.frame(spark, 0, self._commit.loaded)
        if self._commit.loaded == 1:
            return changes.select(*self.schema.stored_names)
        empty = spark.createDataFrame([], spark_type(self.schema.stored))
        return fold(empty, changes, self.schema)

    def _live(self, spark: SparkSession, head: Head) -> DataFrame:
        base = self.snapshot.frame(spark, head.pin)
        if not head.tail.keys:
            return base
        key = list(self.schema.key)
        stored = arrow_schema(self.schema.stored)
        columns = list(zip(*head.tail.keys, strict=True))
        arrays = [pa.array(values, stored.field(n).type) for n, values in zip(key, columns, strict=True)]
        types = dict(self.schema.stored)
        changed = local(spark, pa.table(arrays, names=key), tuple((name, types[name]) for name in key))
        rows = local(spark, head.tail.rows, self.schema.stored)
        return _without(base, changed, key).unionByName(rows)


def _without(base: DataFrame, changed: DataFrame, key: list[str]) -> DataFrame:
    from pyspark.sql import functions as F

    on = [F.col(f"b.`{k}`").eqNullSafe(F.col(f"c.`{k}`")) for k in key]
    condition = on[0]
    for term in on[1:]:
        condition = condition & term
    return base.alias("b").join(F.broadcast(changed.alias("c")), condition, "left_anti")


def fold(base: DataFrame, changes: DataFrame, schema: TableSchema) -> DataFrame:
    """`base` with changes applied: the latest row per key, deleted keys gone."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    key = list(schema.key)
    live = F.col(KIND).isin(INSERT, UPDATE_AFTER)
    order = Window.partitionBy(*key).orderBy(F.col(VERSION).desc(), live.desc())
    newest = changes.withColumn("_n", F.row_number().over(order)).where("_n = 1")
    on = [F.col(f"b.`{k}`").eqNullSafe(F.col(f"c.`{k}`")) for k in key]
    condition = on[0]
    for term in on[1:]:
        condition = condition & term
    kept = base.alias("b").join(newest.select(*key).alias("c"), condition, "left_anti")
    return kept.unionByName(newest.where(live).select(*schema.stored_names))


def fold_local(base: pa.Table, changes: pa.Table, schema: TableSchema) -> pa.Table:
    """As `fold`, in the driver: a hash join by the key. `schema.joinable` holds."""
    key, names = list(schema.key), list(schema.stored_names)
    newest = changes.group_by(key).aggregate([(VERSION, "max")])
    newest = newest.select([*key, f"{VERSION}_max"]).rename_columns([*key, VERSION])
    live = changes.filter(pc.is_in(changes.column(KIND), pa.array([INSERT, UPDATE_AFTER])))
    kept = anti_join(base.select(names), key, newest)
    return pa.concat_tables([kept, semi_join(live, [*key, VERSION], newest).select(names)])


__all__ = ["Cold", "Head", "StoredTable", "fold", "fold_local"]
