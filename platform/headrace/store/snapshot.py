"""The file store: a plain Delta table with a materialized table's rows, brought forward by compaction."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import CommitProperties, PostCommitHookProperties, write_deltalake

from headrace.store.commits import Commit, history, latest
from headrace.store.schema import TableSchema, arrow_schema, conform

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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


class Snapshot:
    def __init__(self, path: Path, schema: TableSchema) -> None:
        self.path = path
        self.schema = schema
        self._frames: dict[tuple[int, int], DataFrame] = {}

    def newest(self) -> Pin:
        found = latest(self.path)
        if found is None:
            raise FileNotFoundError(f"{self.path} has no commit of headrace")
        version, commit = found
        return Pin(version, commit.version, max(commit.through, commit.version))

    def pin_for(self, version: int) -> Pin:
        """The newest pin that holds nothing after changelog `version`. LookupError where none is left."""
        for delta, commit in history(self.path):
            pin = Pin(delta, commit.version, max(commit.through, commit.version))
            if pin.through <= version:
                return pin
        raise LookupError(f"no snapshot of {self.path} at or before version {version} is left")

    def frame(self, spark: SparkSession, pin: Pin) -> DataFrame:
        """The pinned rows. The plan is kept: reading the log again costs more than a small query."""
        key = (id(spark), pin.delta)
        known = self._frames.get(key)
        if known is None:
            known = self._frames[key] = self._read(spark, pin)
            for old in [k for k in self._frames if k[1] < pin.delta - KEPT_PLANS]:
                self._frames.pop(old, None)
        return known

    def _read(self, spark: SparkSession, pin: Pin) -> DataFrame:
        return (
            spark.read.format("delta")
            .option("versionAsOf", pin.delta)
            .load(str(self.path))
            .select(*self.schema.stored_names)
        )

    def overwrite(self, rows: DataFrame, commit: Commit, *, partitions: list[str] | None) -> None:
        """Replace the named partitions (all rows where None) in one commit, by a Spark job.

        Delta itself verifies that every row lies in the replaced partitions.
        """
        writer = (
            rows.select(*self.schema.stored_names)
            .write.format("delta")
            .mode("overwrite")
            .option("userMetadata", commit.encode())
        )
        predicate = self._predicate(partitions)
        if predicate is not None:
            writer = writer.option("replaceWhere", predicate)
        writer.save(str(self.path))

    def overwrite_local(self, rows: pa.Table, commit: Commit, *, partitions: list[str] | None) -> None:
        """As `overwrite`, from the driver: many small files cost a Spark job more than their rows."""
        write_deltalake(
            str(self.path),
            conform(rows, arrow_schema(self.schema.stored)),
            mode="overwrite",
            predicate=self._predicate(partitions),
            partition_by=[self.schema.partition] if self.schema.partition else None,
            commit_properties=CommitProperties(
                custom_metadata={"userMetadata": commit.encode()}, max_commit_retries=0
            ),
            post_commithook_properties=PostCommitHookProperties(
                create_checkpoint=True, cleanup_expired_logs=False
            ),
        )

    def _predicate(self, partitions: list[str] | None) -> str | None:
        if partitions is None or self.schema.partition is None:
            return None
        listed = ", ".join("'" + p.replace("'", "''") + "'" for p in partitions)
        return f"{self.schema.partition} IN ({listed})"
