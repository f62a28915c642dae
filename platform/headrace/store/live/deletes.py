"""Deleted keys of a stg table and the source sequence of each delete: what blocks resurrection.

A delete is a row of the changelog. Before retention removes it there, it is written to `tombstones/`.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import write_deltalake

from headrace.storage.location import Location, delta_table, is_delta_table, spark_path, storage_options
from headrace.storage.permit import PERMIT
from headrace.store.changelog import Changelog
from headrace.store.live.key_joins import KeySet, tuples
from headrace.store.schema import DELETE, KIND, SEQUENCE, VERSION, TableSchema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MEMORY_KEYS = 1_000_000
"""Deleted keys that the driver holds; more are looked up in the files."""

Sequences = dict[tuple[Any, ...], str]


class Deletes:
    """Newest sequence under which each key was deleted. Thread-safe."""

    def __init__(self, path: Location, changelog: Changelog, schema: TableSchema) -> None:
        self.path = path
        self._changelog = changelog
        self._key = schema.key
        names = [*schema.key, SEQUENCE] if schema.sequenced else schema.key
        self._schema = pa.schema([changelog.arrow.field(c) for c in names])
        self._known: Sequences | None = None
        self._lock = threading.RLock()

    def find(self, keys: KeySet) -> Sequences:
        """The newest sequence under which each of these keys was deleted; absent where it never was."""
        with self._lock:
            if self._known is None:
                self._known = self._read(None)
            if len(self._known) <= MEMORY_KEYS:
                return {k: self._known[k] for k in keys if k in self._known}
        predicate = None
        for position, column in enumerate(self._key):
            wanted = pa.array({k[position] for k in keys}, self._schema.field(column).type)
            term = ds.field(column).isin(wanted)
            predicate = term if predicate is None else predicate & term
        found = self._read(predicate)
        return {k: s for k, s in found.items() if k in keys}

    def add(self, changes: pa.Table, tombstones: pa.Table | None) -> None:
        """Note the deletes of a commit just made."""
        with self._lock:
            if self._known is None:
                return
            deleted = changes.filter(pc.equal(changes.column(KIND), DELETE))
            parts = [deleted, *([tombstones] if tombstones is not None else [])]
            for key, sequence in self._newest([p.select(self._schema.names) for p in parts]).items():
                self._known[key] = max(sequence, self._known.get(key, ""))

    def forget(self) -> None:
        """Read everything again when it is asked for: a Spark job has written."""
        with self._lock:
            self._known = None

    def keep(self, after: int, through: int) -> None:
        """Write the deletes of versions `(after, through]` to a place where retention leaves them."""
        rows = self._logged((ds.field(VERSION) > after) & (ds.field(VERSION) <= through))
        self._write(self._newest([rows]))

    def keep_keys(self, keys: KeySet) -> None:
        """As `keep`, of the newest delete of each of these keys: their change rows are about to go."""
        kept = self._newest([self._kept(None)])
        self._write({k: s for k, s in self.find(keys).items() if kept.get(k, "") < s})

    def kept(self, keys: KeySet) -> int:
        """How many of these keys have a tombstone of their own."""
        return len(keys & self._newest([self._kept(None)]).keys())

    def _write(self, newest: Sequences) -> None:
        if not newest:
            return
        columns = [list(c) for c in zip(*newest, strict=True)] + [list(newest.values())]
        arrays = [pa.array(c, f.type) for c, f in zip(columns, self._schema, strict=True)]
        kept = pa.Table.from_arrays(arrays, schema=self._schema)
        rows = kept.sort_by([(c, "ascending") for c in self._key])
        PERMIT.check()
        write_deltalake(str(self.path), rows, mode="append", storage_options=storage_options(self.path))

    def frame(self, spark: SparkSession) -> DataFrame:
        """Key columns and `_seq` of every delete, a key possibly more than once."""
        rows = self._changelog.delete_rows(spark).select(*self._schema.names)
        if not is_delta_table(self.path):
            return rows
        kept = spark.read.format("delta").load(spark_path(self.path))
        return rows.unionByName(kept.select(*self._schema.names))

    def _read(self, predicate: ds.Expression | None) -> Sequences:
        logged = self._logged(predicate)  # first: what retention moves meanwhile is kept before it goes here
        return self._newest([logged, self._kept(predicate)])

    def _kept(self, predicate: ds.Expression | None) -> pa.Table:
        if not is_delta_table(self.path):
            return self._schema.empty_table()
        dataset = delta_table(self.path).to_pyarrow_dataset(schema=self._schema)
        return dataset.to_table(filter=predicate)

    def _logged(self, predicate: ds.Expression | None) -> pa.Table:
        return self._changelog.deletes(self._schema.names, predicate)

    def _newest(self, parts: list[pa.Table]) -> Sequences:
        newest: Sequences = {}
        for part in parts:
            sequences = part.column(SEQUENCE).to_pylist()
            for key, sequence in zip(tuples(part, self._key), sequences, strict=True):
                newest[key] = max(sequence, newest.get(key, ""))
        return newest
