"""The file store: a plain Delta table with a materialized table's rows, brought forward by compaction."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import (
    CommitProperties,
    PostCommitHookProperties,
    WriterProperties,
    write_deltalake,
)

from headrace.errors import NeedsResync
from headrace.storage.location import Location, delta_table, spark_path, storage_options
from headrace.store.closable import Closable
from headrace.store.delta import logs
from headrace.store.delta.files import NO_HOOKS, vacuum
from headrace.store.delta.retained import Retained
from headrace.store.file_rows import FileRows, purge
from headrace.store.record.commits import Commit, history, latest, log_versions
from headrace.store.schema import TableSchema, arrow_schema, conform

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


TARGET_BYTES, ROW_GROUP_ROWS = 64 << 20, 1 << 16
"""Of a file that the driver writes. Rows are sorted by key, so that look-ups prune files and row groups."""

KEPT_PLANS = 2
"""Snapshot versions behind the newest whose plans are kept."""


@dataclass(frozen=True)
class Pin:
    """A snapshot version that readers may use.

    Args:
        delta: version of the snapshot's Delta table.
        compacted: every change up to this changelog version is in it.
        through: newest changelog version that any of its rows has (a backfill overwrites partitions ahead).
    """

    delta: int
    compacted: int
    through: int


class Snapshot(Closable):
    def __init__(self, path: Location, schema: TableSchema) -> None:
        self.path = path
        self.schema = schema
        self.retained = Retained()
        self._frames: dict[tuple[int, int], DataFrame] = {}
        self._lock = threading.Lock()

    def newest(self) -> Pin:
        """The snapshot as other engines read it: a later commit of another writer is part of it."""
        found = latest(self.path)
        if found is None:
            raise FileNotFoundError(f"{self.path} has no commit of headrace")
        _, commit = found
        return Pin(log_versions(self.path)[-1], commit.version, max(commit.through, commit.version))

    def pin_for(self, version: int) -> Pin:
        """The newest whole pin that holds nothing after changelog `version`. NeedsResync: none is left."""
        for delta, commit in history(self.path):
            pin = Pin(delta, commit.version, max(commit.through, commit.version))
            if pin.through <= version and self.retained.whole(delta):
                return pin
        raise NeedsResync(f"no snapshot of {self.path} at or before version {version} is left")

    def oldest_readable(self) -> int:
        """The oldest changelog version whose rows a whole pin, and the changes after it, still give."""
        pins = [c for delta, c in history(self.path) if self.retained.whole(delta)]
        return min((max(c.through, c.version) for c in pins if c.version >= self.retained.removed), default=0)

    def replaced_before(self, moment: float) -> int:
        """The oldest Delta version that was still the newest after `moment` (seconds since 1970)."""
        log, oldest = self.path / "_delta_log", -1
        for version in reversed(log_versions(self.path)):
            oldest = version
            if (log / f"{version:020d}.json").stat().st_mtime < moment:
                break
        return oldest

    def frame(self, spark: SparkSession, pin: Pin) -> DataFrame:
        """The pinned rows. The plan is kept: reading the log again costs more than a small query."""
        key = (id(spark), pin.delta)
        known = self._frames.get(key)
        if known is None:
            known = self._read(spark, pin)
            with self._lock:
                self._frames[key] = known
                for old in [k for k in self._frames if k[1] < pin.delta - KEPT_PLANS]:
                    self._frames.pop(old)
        return known

    def _read(self, spark: SparkSession, pin: Pin) -> DataFrame:
        from pyspark.sql import functions as F

        rows = spark.read.format("delta").option("versionAsOf", pin.delta).load(spark_path(self.path))
        there = rows.columns
        added = [c for c in self.schema.stored if c[0] not in there]  # after this version
        for name, kind in added:
            rows = rows.withColumn(name, F.lit(None).cast(kind))
        return rows.select(*self.schema.stored_names)

    def overwrite(self, rows: DataFrame, commit: Commit, *, partitions: list[str] | None) -> None:
        """Replace the named partitions (all rows where None) in one commit, by a Spark job.

        Delta itself verifies that every row lies in the replaced partitions.
        """
        self.check_open()
        writer = (
            rows.select(*self.schema.stored_names)
            .write.format("delta")
            .mode("overwrite")
            .option("userMetadata", commit.encode())
        )
        predicate = self._predicate(partitions)
        if predicate is not None:
            writer = writer.option("replaceWhere", predicate)
        writer.save(spark_path(self.path))

    def overwrite_local(self, rows: pa.Table, commit: Commit, *, partitions: list[str] | None) -> None:
        """As `overwrite`, from the driver: many small files cost a Spark job more than their rows."""
        self.check_open()
        column = self.schema.partition
        order = [c for c in (column, *self.schema.key) if c is not None]
        write_deltalake(
            str(self.path),
            conform(rows, arrow_schema(self.schema.stored)).sort_by([(c, "ascending") for c in order]),
            mode="overwrite",
            predicate=self._predicate(partitions),
            partition_by=[column] if column else None,
            target_file_size=TARGET_BYTES,
            writer_properties=WriterProperties(compression="SNAPPY", max_row_group_size=ROW_GROUP_ROWS),
            commit_properties=CommitProperties(
                custom_metadata={"userMetadata": commit.encode()}, max_commit_retries=0
            ),
            storage_options=storage_options(self.path),
            post_commithook_properties=PostCommitHookProperties(
                create_checkpoint=True, cleanup_expired_logs=False
            ),
        )

    def merge(self, bound: int) -> int:
        """Merge the files of partitions with more than `bound` small ones: OPTIMIZE, no row changes.

        The commit repeats the newest record, so a pin of it is that record's. Call it between compactions.

        Returns:
            Number of files merged.
        """
        self.check_open()
        table = delta_table(self.path)
        column = self.schema.partition
        actions = pa.table(table.get_add_actions(flatten=True))
        places: Counter[str | None] = Counter()
        values = actions.column(f"partition.{column}").to_pylist() if column else [None] * actions.num_rows
        for place, size in zip(values, actions.column("size_bytes").to_pylist(), strict=True):
            places[place] += size < TARGET_BYTES // 2
        crowded = [p for p, count in places.items() if count > bound]
        found = latest(self.path)
        if not crowded or found is None:
            return 0
        filters = [(column, "in", crowded)] if column and None not in crowded else None
        done = table.optimize.compact(
            partition_filters=filters,
            target_size=TARGET_BYTES,
            commit_properties=CommitProperties(custom_metadata={"userMetadata": found[1].encode()}),
            post_commithook_properties=NO_HOOKS,
        )
        return int(done["numFilesRemoved"])

    def begin_log_anew(self) -> int:
        """Commit the newest record once more and write a checkpoint, on which no older log entry bears.

        The entries of older versions tell of the rows of their files: smallest and largest values.

        Returns:
            The Delta version.
        """
        self.check_open()
        table, found = delta_table(self.path), latest(self.path)
        assert found is not None, "the table was created"
        table.create_write_transaction(
            [],
            "append",
            table.schema(),
            partition_by=table.metadata().partition_columns,
            commit_properties=CommitProperties(custom_metadata={"userMetadata": found[1].encode()}),
            post_commithook_properties=NO_HOOKS,
        )
        table = delta_table(self.path)
        table.create_checkpoint()
        return table.version()

    def purge(self, rows: FileRows, since: int) -> int:
        """Delete files that have some of the rows, and all that the log tells of versions before another one.

        Args:
            since: of `begin_log_anew`.
        Returns:
            Number of data files deleted.
        """
        count = purge(self.path, rows)
        logs.clean(self.path, needed=since, seconds=0)
        with self._lock:
            self._frames.clear()
        return count

    def vacuum(self, hours: int, kept: Sequence[int]) -> int:
        """Delete files that no version newer than `hours` nor one of `kept` uses. Returns how many."""
        found = latest(self.path)
        assert found is not None, "the table was created"
        record = CommitProperties(custom_metadata={"userMetadata": found[1].encode()})
        return len(vacuum(self.path, hours=hours, kept=kept, record=record))

    def _predicate(self, partitions: list[str] | None) -> str | None:
        if partitions is None or self.schema.partition is None:
            return None
        listed = ", ".join("'" + p.replace("'", "''") + "'" for p in partitions)
        return f"{self.schema.partition} IN ({listed})"
