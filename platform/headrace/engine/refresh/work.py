"""What one refresh works on, and the rows around a change of its upstreams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from headrace.engine.rows.cells import TooLarge
from headrace.engine.spark.sessions import Sessions
from headrace.engine.table.table import Delta, Table
from headrace.spec.model import TableName
from headrace.store.live.head import Head
from headrace.store.live.key_joins import KeySet, semi_join
from headrace.store.schema import DELETE, INSERT, KIND, UPDATE_AFTER, UPDATE_BEFORE, TableSchema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BEFORE, AFTER = (UPDATE_BEFORE, DELETE), (UPDATE_AFTER, INSERT)
"""The kinds of change rows that show what was, and what is."""


@dataclass(frozen=True)
class Work:
    """
    Args:
        heads: the upstreams at the cut that is refreshed to.
        deltas: what has changed of them, one change per key; upstreams without a change are left out.
        skip: corrections of the upstreams are passed over.
        shadowed: the alternative runs beside it.
    """

    sessions: Sessions
    table: Table
    upstreams: dict[TableName, Table]
    heads: dict[TableName, Head]
    deltas: dict[TableName, Delta]
    skip: bool
    shadowed: bool

    @property
    def references(self) -> list[TableName]:
        """The upstream of each reference of the query, in order of appearance."""
        return [r.upstream for r in self.table.spec.references]  # type: ignore[misc]

    @property
    def schemas(self) -> list[TableSchema]:
        """Of each reference."""
        return [self.upstreams[name].store.schema for name in self.references]

    @property
    def changed(self) -> dict[int, pa.Table]:
        """The change rows of each reference that has some, where the driver has them."""
        found = {}
        for place, name in enumerate(self.references):
            rows = self.deltas[name].rows if name in self.deltas else None
            if rows is not None and rows.num_rows:
                found[place] = rows
        return found

    @property
    def only(self) -> tuple[Table, Delta]:
        """The one upstream that has changed, and its change."""
        [delta] = self.deltas.values()
        return self.upstreams[delta.table], delta


@dataclass(frozen=True)
class Frames:
    """The upstreams as Spark plans.

    Args:
        current: rows at the target cut, visible columns.
        changes: stored columns and `_kind`; upstreams without a change are left out.
    """

    current: Mapping[TableName, DataFrame]
    changes: Mapping[TableName, DataFrame]

    def of(self, work: Work) -> tuple[list[DataFrame], dict[int, DataFrame]]:
        """The rows of each reference, and the changes of those that have some."""
        names = work.references
        return (
            [self.current[name] for name in names],
            {i: self.changes[name] for i, name in enumerate(names) if name in self.changes},
        )


def images(changes: pa.Table, *kinds: str) -> pa.Table:
    """The rows of `changes` of these kinds."""
    return changes.filter(pc.is_in(changes.column(KIND), pa.array(kinds, pa.string())))


class HeadLeaves:
    """The rows of a query's leaves at their heads, with `changes` also those that changed, old and new."""

    def __init__(
        self, table: Table, heads: Sequence[Head], changes: Mapping[int, pa.Table] | None = None
    ) -> None:
        self._limit = table.limits.inputs
        self._heads = heads
        self._changes = changes or {}

    def find(self, reference: int, columns: Sequence[str], keys: KeySet) -> pa.Table:
        found = self._heads[reference].find(columns, keys)
        if reference in self._changes:
            changed = self._changes[reference].select(found.column_names)
            found = pa.concat_tables([found, semi_join(changed, columns, keys)])
        return self._fitting(found)

    def read(self, reference: int) -> pa.Table:
        if self._heads[reference].index.count(None) > self._limit:
            raise TooLarge
        return self._fitting(self._heads[reference].read())

    def _fitting(self, rows: pa.Table) -> pa.Table:
        if rows.num_rows > self._limit:
            raise TooLarge
        return rows
