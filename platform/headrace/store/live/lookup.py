"""Point look-ups in a pinned snapshot from the driver, without a Spark job.

Files are pruned by partition value and by their minimum and maximum, then read by Arrow. What comes back is
exact: no SQL runs here, rows are only found by equality.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable

from headrace.storage.location import Location, arrow_place, delta_table
from headrace.store.live.key_joins import KeySet, semi_join
from headrace.store.live.resident import RESIDENT
from headrace.store.schema import conform


@dataclass(frozen=True)
class _File:
    fragment: ds.Fragment
    partition: Any
    low: Mapping[str, Any]
    high: Mapping[str, Any]
    rows: int
    bytes: int


FIXED_BYTES, TEXT_BYTES = 10, 24
"""Of one value in memory, about."""


class SnapshotIndex:
    """The files of one snapshot version, with what their statistics say; its rows, too, where memory allows.

    Args:
        path: the snapshot's Delta table.
        version: the Delta version to read; it never changes under this index.
        schema: Arrow schema of the stored columns.
        partition: the partition column, or None.
    """

    def __init__(self, path: Location, version: int, schema: pa.Schema, partition: str | None) -> None:
        self._schema = schema
        self._partition = partition
        self._format = ds.ParquetFileFormat()
        self._filesystem, self._root = arrow_place(path)
        table = delta_table(path, version)
        actions = _actions(table)
        self._files = [self._file(action) for action in actions]
        self._left = False  # a newer version has the rows; a reader that is still here looks into the files
        self.partitions: set[Any] = {f.partition for f in self._files} if partition else set()
        self.paths: dict[Any, set[str]] = {}
        for file in self._files:
            self.paths.setdefault(file.partition, set()).add(file.fragment.path)

    def _file(self, action: Mapping[str, Any]) -> _File:
        value = action.get(f"partition.{self._partition}") if self._partition else None
        expression = None
        if self._partition:
            field = ds.field(self._partition)
            expression = field.is_null() if value is None else field == value
        # A URI of a folder whose name is escaped where a label has other characters than digits.
        place = f"{self._root}/{unquote(action['path'])}"
        fragment = self._format.make_fragment(
            place, filesystem=self._filesystem, partition_expression=expression
        )
        names = self._schema.names
        return _File(
            fragment,
            value,
            {n: action.get(f"min.{n}") for n in names},
            {n: action.get(f"max.{n}") for n in names},
            action.get("num_records") or 0,
            action.get("size_bytes") or 0,
        )

    def warm(self, rows: pa.Table | None = None) -> None:
        """Hold the rows in memory where they find room: opening files costs more than holding them.

        Args:
            rows: the snapshot's rows, where the caller has them. Default: read them.
        """
        if (
            not self._left
            and RESIDENT.get(self) is None
            and RESIDENT.admits(self._estimate() if rows is None else rows.nbytes)
        ):
            RESIDENT.put(self, conform(self.read() if rows is None else rows, self._schema).combine_chunks())

    def _estimate(self) -> int:
        """Bytes of the rows in memory."""
        texts = sum(not _is_fixed(field.type) for field in self._schema)
        width = texts * TEXT_BYTES + (len(self._schema) - texts) * FIXED_BYTES
        return max(self.count(None) * width, self.size(None))

    def inherit(
        self, previous: SnapshotIndex, rows: pa.Table | None = None, partitions: Collection[Any] | None = None
    ) -> None:
        """As `warm`, with the rows that an older version of the snapshot has in the same files.

        Args:
            rows: the rows of `partitions` (all where None), where the caller has them.
        """
        held = RESIDENT.take(previous)
        previous._left = True
        if held is None or self._partition is None:
            self.warm(rows if partitions is None else None)
            return
        places = set(self.paths) | set(previous.paths)
        changed = {p for p in places if self.paths.get(p) != previous.paths.get(p)}
        kept = held.filter(pc.invert(self._lies_in(held, changed)))
        if rows is None or not (partitions is None or changed <= set(partitions)):
            fresh = self.load([f.fragment for f in self._files if f.partition in changed])
        else:
            fresh = conform(rows, self._schema)
            fresh = fresh.filter(self._lies_in(fresh, changed))
        RESIDENT.put(self, pa.concat_tables([kept, fresh]).combine_chunks())

    def _lies_in(self, rows: pa.Table, partitions: Collection[Any]) -> pa.ChunkedArray:
        kind = self._schema.field(self._partition).type
        return pc.is_in(rows.column(self._partition), pa.array(list(partitions), kind))

    def fragments(self, columns: Sequence[str], keys: KeySet) -> list[ds.Fragment]:
        """The files that may hold a row whose tuple of `columns` is one of `keys`."""
        values = {c: {k[i] for k in keys} for i, c in enumerate(columns)}
        ordered = {c: _sorted(v) for c, v in values.items()}
        return [f.fragment for f in self._files if self._may_match(f, values, ordered)] if keys else []

    def find(self, columns: Sequence[str], keys: KeySet) -> pa.Table:
        """Rows whose tuple of `columns` is one of `keys` (NULL-safe), all stored columns."""
        self.warm()
        if (held := RESIDENT.get(self)) is not None:
            return semi_join(held, columns, keys)
        fragments = self.fragments(columns, keys)
        if not fragments:
            return self._schema.empty_table()
        values = {c: {k[i] for k in keys} for i, c in enumerate(columns)}
        predicate = None
        for column, wanted in values.items():
            array = pa.array(list(wanted), self._schema.field(column).type)
            term = ds.field(column).isin(array)
            predicate = term if predicate is None else predicate & term
        dataset = ds.FileSystemDataset(fragments, self._schema, self._format, self._filesystem)
        return semi_join(dataset.to_table(filter=predicate).select(self._schema.names), columns, keys)

    def where(self, predicate: pc.Expression) -> pa.Table:
        """Rows for which the predicate is true. Arrow skips what statistics and partitions tell is not."""
        if (held := RESIDENT.get(self)) is not None:
            return held.filter(predicate)
        return self.load([f.fragment for f in self._files], predicate)

    def read(self) -> pa.Table:
        """All rows."""
        if (held := RESIDENT.get(self)) is not None:
            return held
        return self.load([f.fragment for f in self._files])

    def load(self, fragments: list[ds.Fragment], predicate: pc.Expression | None = None) -> pa.Table:
        if not fragments:
            return self._schema.empty_table()
        dataset = ds.FileSystemDataset(fragments, self._schema, self._format, self._filesystem)
        return dataset.to_table(filter=predicate).select(self._schema.names)

    def count(self, partitions: Collection[Any] | None) -> int:
        """Rows in these partitions, all where None, from file statistics."""
        return sum(f.rows for f in self._files if partitions is None or f.partition in partitions)

    def counts(self) -> Counter[Any]:
        """Rows of each partition, from file statistics."""
        found: Counter[Any] = Counter()
        for file in self._files:
            found[file.partition] += file.rows
        return found

    def size(self, partitions: Collection[Any] | None) -> int:
        """Bytes of the files of these partitions, of all where None."""
        return sum(f.bytes for f in self._files if partitions is None or f.partition in partitions)

    def _may_match(self, file: _File, values: Mapping[str, set[Any]], ordered: Mapping[str, Any]) -> bool:
        for column, wanted in values.items():
            if column == self._partition:
                if file.partition not in wanted:
                    return False
                continue
            low, high, order = file.low.get(column), file.high.get(column), ordered[column]
            if low is None or high is None or order is None or None in wanted:
                continue  # no statistics, or NULLs asked for: the file must be read
            if isinstance(low, float) or not isinstance(order[0], type(low)):
                continue  # decimal statistics are rounded to floats: not to be trusted
            if isinstance(low, str) and len(high) >= _TRUNCATED:
                continue
            if isinstance(high, datetime):
                high += _TRUNCATED_TIME
            at = bisect.bisect_left(order, low)
            if at == len(order) or order[at] > high:
                return False
        return True


_TRUNCATED = 32
"""Delta may cut string statistics at this length."""

_TRUNCATED_TIME = timedelta(milliseconds=1)
"""Delta's statistics of timestamps have milliseconds, cut off."""


def _actions(table: DeltaTable) -> list[dict[str, Any]]:
    return pa.table(table.get_add_actions(flatten=True)).to_pylist()


def _sorted(values: set[Any]) -> list[Any] | None:
    try:
        return sorted(values)
    except TypeError:  # NULL among them
        return None


def _is_fixed(kind: pa.DataType) -> bool:
    return pa.types.is_primitive(kind) or pa.types.is_decimal(kind)
