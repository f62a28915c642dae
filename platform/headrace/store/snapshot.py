"""The file store: a plain Delta table with a materialized table's rows, brought forward by compaction."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.store.commits import Commit, history, latest
from headrace.store.schema import TableSchema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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
        return (
            spark.read.format("delta")
            .option("versionAsOf", pin.delta)
            .load(str(self.path))
            .select(*self.schema.stored_names)
        )

    def overwrite(self, rows: DataFrame, commit: Commit, *, partitions: list[str] | None) -> None:
        """Replace the named partitions (all rows where None) in one commit.

        Delta itself verifies that every row lies in the replaced partitions.
        """
        writer = (
            rows.select(*self.schema.stored_names)
            .write.format("delta")
            .mode("overwrite")
            .option("userMetadata", commit.encode())
        )
        if partitions is not None and self.schema.partition is not None:
            column = f"`{self.schema.partition}`"
            listed = ", ".join("'" + p.replace("'", "''") + "'" for p in partitions)
            writer = writer.option("replaceWhere", f"{column} IN ({listed})")
        writer.save(str(self.path))
