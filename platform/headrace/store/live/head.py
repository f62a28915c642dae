"""The newest state of a table as one consistent view, in the driver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.store.live.key_joins import KeySet, anti_join
from headrace.store.live.lookup import SnapshotIndex
from headrace.store.live.tail import TailView
from headrace.store.record.commits import Commit
from headrace.store.snapshot import Pin


@dataclass(frozen=True)
class Head:
    """The newest state of a table, as one consistent view."""

    commit: Commit
    pin: Pin
    index: SnapshotIndex
    tail: TailView
    key: tuple[str, ...]

    def find(self, columns: Sequence[str], keys: KeySet) -> pa.Table:
        """Live rows whose tuple of `columns` is one of `keys` (NULL-safe), all stored columns."""
        found = self.index.find(columns, keys)
        found = anti_join(found, self.key, self.tail.keys)
        return pa.concat_tables([found, self.tail.find(columns, keys)]).combine_chunks()

    def where(self, predicate: pc.Expression) -> pa.Table:
        """Live rows for which the predicate is true, all stored columns."""
        found = anti_join(self.index.where(predicate), self.key, self.tail.keys)
        return pa.concat_tables([found, self.tail.rows.filter(predicate)]).combine_chunks()

    def read(self) -> pa.Table:
        """All live rows, stored columns: for tables that fit the driver."""
        found = self.index.read()
        found = anti_join(found, self.key, self.tail.keys)
        return pa.concat_tables([found, self.tail.rows]).combine_chunks()

    def labels(self, column: str) -> set[str]:
        """The partitions that have rows, or had some in the snapshot. `column`: the partition column."""
        found = {*self.index.partitions, *self.tail.rows.column(column).unique().to_pylist()}
        return {label for label in found if label is not None}

    def counts(self, column: str) -> dict[Any, int]:
        """Number of live rows of each partition that has any. `column`: the partition column."""
        found = self.index.counts()
        if self.tail.keys:
            found.subtract(self.index.find(self.key, self.tail.keys).column(column).to_pylist())
        found.update(self.tail.rows.column(column).to_pylist())
        return {label: count for label, count in found.items() if count}

    def count(self) -> int:
        """Number of live rows."""
        void = self.index.find(self.key, self.tail.keys).num_rows if self.tail.keys else 0
        return self.index.count(None) - void + self.tail.rows.num_rows


class Cold(RuntimeError):
    """The tail is too long for the driver, or was just written by a Spark job: compact first."""
