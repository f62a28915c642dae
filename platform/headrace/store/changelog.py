"""The log store: an append-only Delta table of a materialized table's row changes.

Small appends are written by delta-rs from the driver (about 5 ms), large ones by a Spark job. Both are
ordinary Delta commits with the same record.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, write_deltalake

from headrace.errors import TransientError
from headrace.store.commits import Commit
from headrace.store.lookup import KeySet, tuples
from headrace.store.schema import (
    BACKFILL,
    DELETE,
    KIND,
    ORIGIN,
    SEQUENCE,
    TOMBSTONE,
    VERSION,
    TableSchema,
    arrow_schema,
    conform,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
CHECKPOINT_EVERY = 500
"""Commits between two checkpoints of the Delta log."""


class Changelog:
    """Row changes of one table, each commit one version. Only the lease holder appends."""

    def __init__(self, path: Path, schema: TableSchema) -> None:
        self.path = path
        self.schema = schema
        self.arrow = arrow_schema(schema.logged)
        self._table: DeltaTable | None = None

    def _delta(self) -> DeltaTable:
        if self._table is None:
            self._table = DeltaTable(str(self.path))
        return self._table

    def refresh(self) -> int:
        """The latest Delta version, read from the log."""
        table = self._delta()
        table.update_incremental()
        return table.version()

    def append(
        self, changes: pa.Table, commit: Commit, *, origin: str, tombstones: pa.Table | None = None
    ) -> None:
        """Append changes (stored columns + `_kind`) as version `commit.version`, from the driver.

        Args:
            tombstones: key columns and `_seq` of deletes whose rows were never held (stg only).
        """
        rows = self._logged(changes, commit, origin)
        if tombstones is not None and tombstones.num_rows:
            rows = pa.concat_tables([rows, self._logged(self._buried(tombstones), commit, TOMBSTONE)])
        properties = CommitProperties(custom_metadata={"userMetadata": commit.encode()}, max_commit_retries=0)
        table = self._delta()
        write_deltalake(
            table,
            rows,
            mode="append",
            commit_properties=properties,
            post_commithook_properties=_NO_HOOKS,
        )
        self._check(table.version(), commit)
        if commit.version % CHECKPOINT_EVERY == 0:
            table.create_checkpoint()

    def _logged(self, changes: pa.Table, commit: Commit, origin: str) -> pa.Table:
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
            .save(str(self.path))
        )
        self._check(self.refresh(), commit)

    def _check(self, version: int, commit: Commit) -> None:
        if version != commit.version:
            raise TransientError(
                f"the changelog of `{commit.table}` is at version {version}, expected {commit.version}: "
                "another process wrote it. Next: `headrace down`, then `headrace up`"
            )

    def read(self, after: int, through: int, *, skip_backfill: bool = False) -> pa.Table:
        """Changes of versions `(after, through]`, in the driver: for small ranges."""
        table = DeltaTable(str(self.path))
        predicate = (ds.field(VERSION) > after) & (ds.field(VERSION) <= through)
        predicate &= ds.field(ORIGIN) != TOMBSTONE
        if skip_backfill:
            predicate &= ds.field(ORIGIN) != BACKFILL
        found = table.to_pyarrow_dataset(schema=self.arrow).to_table(filter=predicate)
        return conform(found, self.arrow).sort_by(VERSION)

    def frame(
        self, spark: SparkSession, after: int, through: int, *, skip_backfill: bool = False
    ) -> DataFrame:
        """Changes of versions `(after, through]` as a Spark frame."""
        from pyspark.sql import functions as F

        frame = spark.read.format("delta").load(str(self.path))
        frame = frame.where((F.col(VERSION) > after) & (F.col(VERSION) <= through))
        frame = frame.where(F.col(ORIGIN) != TOMBSTONE)
        return frame.where(F.col(ORIGIN) != BACKFILL) if skip_backfill else frame

    def tombstones(self, keys: KeySet) -> dict[tuple[Any, ...], str]:
        """The newest source sequence under which each key was deleted; absent where it never was."""
        table = DeltaTable(str(self.path))
        predicate = ds.field(KIND) == DELETE
        for position, column in enumerate(self.schema.key):
            wanted = pa.array({k[position] for k in keys}, self.arrow.field(column).type)
            predicate &= ds.field(column).isin(wanted)
        found = table.to_pyarrow_dataset(schema=self.arrow).to_table(filter=predicate)
        newest: dict[tuple[Any, ...], str] = {}
        for key, sequence in zip(
            tuples(found, self.schema.key), found.column(SEQUENCE).to_pylist(), strict=True
        ):
            if key in keys:
                newest[key] = max(sequence, newest.get(key, ""))
        return newest

    def count(self, after: int, through: int) -> int:
        """Number of change rows in versions `(after, through]`, from file statistics."""
        actions = pa.table(DeltaTable(str(self.path)).get_add_actions(flatten=True))
        low, rows = actions.column(f"min.{VERSION}").to_pylist(), actions.column("num_records").to_pylist()
        return sum(n for v, n in zip(low, rows, strict=True) if v is not None and after < v <= through)
