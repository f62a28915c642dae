"""The log store: an append-only Delta table of a materialized table's row changes.

Small appends are written by delta-rs from the driver (about 5 ms), large ones by a Spark job. Both are
ordinary Delta commits with the same record.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import CommitProperties, DeltaTable, WriterProperties, write_deltalake
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction

from headrace.errors import NeedsResync, TransientError
from headrace.storage.location import Location, arrow_place, delta_table, spark_path
from headrace.store.closable import Closable
from headrace.store.delta.files import (
    NO_HOOKS,
    logged_files,
    maintenance,
    merge,
    mergeable,
    remove,
    rewrite,
    vacuum,
)
from headrace.store.delta.parts import commit_parts
from headrace.store.file_rows import FileRows, purge
from headrace.store.recent import Recent
from headrace.store.record.commits import Commit, latest, read_commit
from headrace.store.record.rewinds import NEWEST, Rewinds, live_ranges
from headrace.store.schema import (
    BACKFILL,
    DELETE,
    KIND,
    ORIGIN,
    STREAM,
    TOMBSTONE,
    VERSION,
    TableSchema,
    arrow_schema,
    conform,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

CHECKPOINT_EVERY = 500
"""Commits between two checkpoints of the Delta log, where maintenance has made none meanwhile."""

RECENT_BYTES = 2 << 20
"""Of Arrow: the newest changes that stay in memory, a minute and more of a few dozen a second."""

SPLIT_ROWS = 100_000
"""Rows of a row group of a large append: Spark's tasks divide a file by them."""
_PLAIN = WriterProperties(compression="SNAPPY")
_SPLIT = WriterProperties(compression="SNAPPY", max_row_group_size=SPLIT_ROWS)

ATTEMPTS = 5
"""Times that an append is tried again because maintenance committed at the same moment."""


class Changelog(Closable):
    """Row changes of one table, each commit one version. Only the lease holder appends."""

    def __init__(self, path: Location, schema: TableSchema) -> None:
        self.path = path
        self.schema = schema
        self.arrow = arrow_schema(schema.logged)
        self.removed = 0
        """Retention has removed the changes up to this version; reads before it are refused."""
        self.rewinds: Rewinds = ()
        self._table: DeltaTable | None = None
        self._seen = -1
        self._recent: Recent[pa.Table] = Recent(RECENT_BYTES, lambda rows: rows.nbytes)

    def _delta(self) -> DeltaTable:
        if self._table is None:
            self._table = delta_table(self.path)
            self._seen = self._table.version()
        return self._table

    def reopen(self) -> None:
        """Know nothing but what is on disk: others may have written it."""
        self._recent.clear()
        self.refresh()

    def refresh(self) -> int:
        """The latest Delta version, read from the log."""
        self._table = None
        return self._delta().version()

    def append(
        self, changes: pa.Table, commit: Commit, *, origin: str, tombstones: pa.Table | None = None
    ) -> None:
        """Append changes (stored columns + `_kind`) as version `commit.version`, from the driver.

        Args:
            tombstones: key columns and `_seq` of deletes whose rows were never held (stg only).
        """
        rows = self.logged(changes, commit, origin)
        if tombstones is not None and tombstones.num_rows:
            rows = pa.concat_tables([rows, self.logged(self._buried(tombstones), commit, TOMBSTONE)])
        properties = CommitProperties(custom_metadata={"userMetadata": commit.encode()}, max_commit_retries=0)
        for attempt in range(ATTEMPTS):
            table, before = self._delta(), self._seen
            self.check_open()  # with the version in hand after which this commit comes, or fails
            try:
                write_deltalake(
                    table,
                    rows,
                    mode="append",
                    writer_properties=_SPLIT if rows.num_rows > SPLIT_ROWS else _PLAIN,
                    commit_properties=properties,
                    post_commithook_properties=NO_HOOKS,
                )
                self._seen = table.version()
                break
            except DeltaError:
                # Maintenance has committed, or cut the log, since: go on after it. Nobody else may have.
                if self.refresh() == before or attempt == ATTEMPTS - 1:
                    raise
                if self._among(before, commit):
                    break
        self._recent.add(commit.version, rows)
        if self._seen % CHECKPOINT_EVERY == 0:
            self._delta().create_checkpoint()

    def _among(self, before: int, commit: Commit) -> bool:
        """Whether the commit itself is one of the Delta versions after `before`.

        Raises:
            TransientError: one of them is neither that nor maintenance.
        """
        found = False
        for version in range(before + 1, self._seen + 1):
            try:
                record = read_commit(self.path, version)
            except FileNotFoundError:
                continue  # maintenance has cut the log since
            if record is not None and record.encode() == commit.encode():
                found = True
            elif record is None or record.mode != "maintenance":
                raise TransientError(
                    f"somebody else wrote version {version} of the changelog of `{commit.table}`, which was "
                    f"to hold its change {commit.version}. Next: `headrace down`, then `headrace up`"
                )
        return found

    def logged(self, changes: pa.Table, commit: Commit, origin: str) -> pa.Table:
        rows = changes.num_rows
        changes = changes.append_column(ORIGIN, pa.array([origin] * rows, pa.string()))
        changes = changes.append_column(VERSION, pa.array([commit.version] * rows, pa.int64()))
        return conform(changes, self.arrow)

    def _buried(self, tombstones: pa.Table) -> pa.Table:
        rows = tombstones.num_rows
        columns = {
            name: tombstones.column(name)
            if name in tombstones.column_names
            else pa.nulls(rows, self.arrow.field(name).type)
            for name in self.schema.stored_names
        }
        return pa.table({**columns, KIND: pa.array([DELETE] * rows, pa.string())})

    def append_frame(
        self, changes: DataFrame, commit: Commit, *, origin: str, tombstones: DataFrame | None = None
    ) -> None:
        """As `append`, by a Spark job."""
        from pyspark.sql import functions as F

        self.check_open()
        self._delta()
        before = self._seen
        rows = changes.withColumn(ORIGIN, F.lit(origin))
        if tombstones is not None:
            buried = tombstones.withColumn(KIND, F.lit(DELETE)).withColumn(ORIGIN, F.lit(TOMBSTONE))
            rows = rows.unionByName(buried, allowMissingColumns=True)
        (
            rows.withColumn(VERSION, F.lit(commit.version).cast("bigint"))
            .select(*[name for name, _ in self.schema.logged])
            .write.format("delta")
            .mode("append")
            .option("userMetadata", commit.encode())
            .save(spark_path(self.path))
        )
        self.refresh()
        self._among(before, commit)

    def add(self, actions: Sequence[AddAction], commit: Commit) -> None:
        """As `append`, of files that were written beforehand."""
        self.check_open()
        self._delta()
        before = self._seen
        commit_parts(self.path, actions, commit)
        self.refresh()
        self._among(before, commit)

    def _open(self, after: int) -> DeltaTable:
        """The table as it is, for a reader of what follows `after`."""
        table = delta_table(self.path)
        self.check(after)  # after opening: what is removed from now on stays in the files just listed
        return table

    def check(self, after: int) -> None:
        """Raises NeedsResync where retention has removed some of what follows version `after`."""
        if after < self.removed:
            raise NeedsResync(
                f"{self.path}: the changes after version {after} are gone, retention kept those after "
                f"version {self.removed}"
            )

    def read(self, after: int, through: int, *, skip_backfill: bool = False, live: bool = False) -> pa.Table:
        """Changes of versions `(after, through]`, in the driver: for small ranges. Raises as `check`.

        Args:
            live: without those that a rewind took back, and without its own; see `store.record.rewinds`.
        """
        ranges = live_ranges(self.rewinds, after, through) if live else [(after, through)]
        predicate = ds.field(ORIGIN) != TOMBSTONE
        if skip_backfill:
            predicate &= ds.field(ORIGIN) != BACKFILL
        recent = [self._recent.between(*part) for part in ranges]
        if None not in recent and (known := [rows for part in recent for rows in part or ()]):
            self.check(after)
            return pa.concat_tables(known).filter(predicate)
        found = self._open(after).to_pyarrow_dataset(schema=self.arrow)
        return conform(found.to_table(filter=self._within(ranges) & predicate), self.arrow).sort_by(VERSION)

    def streamed_labels(self, after: int, through: int) -> set[str | None]:
        """The partitions that changes of versions `(after, through]` are in, without those of backfills.

        Raises as `check`.
        """
        assert self.schema.partition is not None
        predicate = self._within([(after, through)]) & (ds.field(ORIGIN) == STREAM)
        rows = self._open(after).to_pyarrow_dataset(schema=self.arrow)
        found = rows.to_table(columns=[self.schema.partition], filter=predicate)
        return set(found.column(0).unique().to_pylist())

    def values(self, column: str, after: int, through: int) -> set[str | None]:
        """What a text column has in the changes of versions `(after, through]`, before and after each.

        Raises as `check`.
        """
        predicate = self._within([(after, through)]) & (ds.field(ORIGIN) != TOMBSTONE)
        rows = self._open(after).to_pyarrow_dataset(schema=self.arrow)
        found: set[str | None] = set()
        for batch in rows.scanner(columns=[column], filter=predicate).to_batches():
            found.update(batch.column(0).unique().to_pylist())
        return found

    @staticmethod
    def _within(ranges: Sequence[tuple[int, int]]) -> ds.Expression:
        terms = [(ds.field(VERSION) > after) & (ds.field(VERSION) <= through) for after, through in ranges]
        return reduce(or_, terms, ds.scalar(False))

    def frame(
        self,
        spark: SparkSession,
        after: int,
        through: int,
        *,
        skip_backfill: bool = False,
        tombstones: bool = False,
        live: bool = False,
    ) -> DataFrame:
        """Changes of versions `(after, through]` as a Spark frame. Raises as `check`.

        Args:
            tombstones: with the deletes of rows that were never held.
            live: see `read`.
        """
        from pyspark.sql import functions as F

        frame = self.all_rows(spark)
        self.check(after)
        frame = frame.where(
            _in_ranges(live_ranges(self.rewinds, after, through) if live else [(after, through)])
        )
        if not tombstones:
            frame = frame.where(F.col(ORIGIN) != TOMBSTONE)
        return frame.where(F.col(ORIGIN) != BACKFILL) if skip_backfill else frame

    def all_rows(self, spark: SparkSession) -> DataFrame:
        """Whatever the changelog still holds, tombstones included."""
        return spark.read.format("delta").load(spark_path(self.path))

    def merge(self, bound: int) -> int:
        """Make large files of small ones where there are more than `bound`, beside appends and readers.

        Returns:
            Number of files merged.
        """
        table = delta_table(self.path)
        groups = mergeable(logged_files(table), bound=bound)
        found = latest(self.path)
        if not groups or found is None:
            return 0
        merge(self.path, table, groups, found[1])
        return sum(map(len, groups))

    def remove(self, through: int) -> int:
        """Let the files go whose changes are all of version `through` or before.

        Returns:
            Number of files removed.
        """
        table = delta_table(self.path)
        gone = [f for f in logged_files(table) if f.high <= through]
        found = latest(self.path)
        if not gone or found is None:
            return 0
        remove(table, gone, found[1])
        return len(gone)

    def erase(self, rows: FileRows) -> None:
        """Take some rows out of the files, in one commit. The caller holds off whoever reads and appends.

        Later reads of the versions that they were in give the others.
        """
        self.check_open()
        table, found = delta_table(self.path), latest(self.path)
        holding = [f for f in logged_files(table) if rows.of(self.path / f.path).count]
        if holding and found is not None:
            rewrite(self.path, table, holding, rows.without, found[1])
        self.reopen()

    def purge(self, rows: FileRows) -> int:
        """Delete files that have some of the rows and that the newest version is not made of.

        Returns:
            Number of files deleted.
        """
        return purge(self.path, rows)

    def vacuum(self, hours: int) -> int:
        """Delete files that no version newer than `hours` uses. Returns how many."""
        found = latest(self.path)
        assert found is not None, "the table was created"
        return len(vacuum(self.path, hours=hours, kept=[], record=maintenance(found[1])))

    def deletes(self, columns: list[str], predicate: ds.Expression | None) -> pa.Table:
        """These columns of all deletes that hold, tombstones included: none that a rewind took back."""
        deleted = (ds.field(KIND) == DELETE) & self._within(live_ranges(self.rewinds, 0, NEWEST))
        dataset = delta_table(self.path).to_pyarrow_dataset(schema=self.arrow)
        return dataset.to_table(columns, filter=deleted if predicate is None else deleted & predicate)

    def delete_rows(self, spark: SparkSession) -> DataFrame:
        """As `deletes`, all of them as a Spark frame, all columns."""
        from pyspark.sql import functions as F

        held = _in_ranges(live_ranges(self.rewinds, 0, NEWEST))
        return self.all_rows(spark).where((F.col(KIND) == DELETE) & held)

    def count(self, after: int, through: int) -> int:
        """Number of change rows in versions `(after, through]`, tombstones included.

        From file statistics; a merged file that is only partly in the range is looked into.
        """
        table = delta_table(self.path)
        files = [f for f in logged_files(table) if f.low <= through and f.high > after]
        whole = sum(f.rows for f in files if f.low > after and f.high <= through)
        parts = [arrow_place(self.path / f.path) for f in files if f.low <= after or f.high > through]
        if parts:
            rows = ds.dataset([place for _, place in parts], filesystem=parts[0][0])
            whole += rows.count_rows(filter=self._within([(after, through)]))
        return whole

    def page_end(self, after: int, through: int, rows: int) -> int:
        """The version at which `(after, …]` has about `rows` rows: a file's last, `through` at most."""
        total = 0
        for file in logged_files(delta_table(self.path)):
            if file.high <= after or file.low > through:
                continue
            total += file.rows
            if total >= rows:
                return min(file.high, through)
        return through


def _in_ranges(ranges: Sequence[tuple[int, int]]) -> Column:
    from pyspark.sql import functions as F

    terms = [(F.col(VERSION) > after) & (F.col(VERSION) <= through) for after, through in ranges]
    return reduce(or_, terms, F.lit(False))
