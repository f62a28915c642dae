"""One materialized table at run time: what it declares, how it is refreshed, where it is stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeGuard

import pyarrow as pa

from headrace.engine.table.limits import Limits
from headrace.engine.table.run import TableRun
from headrace.planner.plan import Plan
from headrace.planner.policy.classify import Change
from headrace.sources.schema import SourceSchema
from headrace.spec.model import RefreshMode, SchemaChangeBehavior, SourceTable, TableName, TableSpec
from headrace.store.live.head import Cold, Head
from headrace.store.record.commits import Commit
from headrace.store.tables import StoredTable


@dataclass
class Table:
    """What one table declares and where it is stored; `run`: what this process knows of it.

    Args:
        template: hash of the definition; part of every commit.
    """

    spec: TableSpec
    plan: Plan
    mode: RefreshMode
    mode_reason: str
    store: StoredTable
    template: str
    freshness: timedelta | None = None
    """Declared, or of the tightest consumer."""

    @property
    def reached(self) -> dict[str, int]:
        """Upstream versions that the table's present rows cover: the recorded frontier, or later."""
        return self.standing()[1]

    def standing(self) -> tuple[Commit, dict[str, int]]:
        """The newest commit and what its rows have `reached`; a refresh may end meanwhile."""
        covered = self.run.covered  # looked at first: what it says holds for a later commit, too
        commit = self.store.commit
        recorded = commit.upstreams
        return commit, {n: max(recorded.get(n, 0), covered.get(n, 0)) for n in {*recorded, *covered}}

    lacks: str | None = None
    """Why it cannot run: its query names a column that its source has dropped, or its source has no key."""

    reshaped: bool = False
    """Whether its rows have another shape than it declares: columns, key or partition."""

    extended: TableSpec | None = None
    """The declaration with the hidden columns in its query, where the table has any."""

    @property
    def stored_query(self) -> TableSpec:
        """What to run for rows with all stored columns."""
        return self.extended or self.spec

    limits: Limits = field(default_factory=Limits)
    """What of it the driver does itself."""

    run: TableRun = field(default_factory=TableRun)

    def warm_head(self) -> Head | None:
        """Its newest state; None where it must be compacted before rows are looked up in it."""
        try:
            return self.store.head()
        except Cold:
            return None

    @property
    def name(self) -> TableName:
        return self.spec.name


@dataclass
class StgTable(Table):
    """One that reads a captured table.

    Args:
        source: what it reads of the captured table.
        behavior: what it does when the source's columns change.
    """

    source: SourceSchema = field(kw_only=True)
    behavior: SchemaChangeBehavior = SchemaChangeBehavior.LENIENT

    @property
    def topic(self) -> str:
        """Debezium's topic of the captured table."""
        return self.source.table.topic


def is_stg(table: Table) -> TypeGuard[StgTable]:
    """Whether the table reads a captured one."""
    return table.spec.source is not None


@dataclass(frozen=True)
class Delta:
    """A table's net change in versions `(after, through]`.

    Args:
        rows: stored columns and `_kind`, in the driver; None where they did not come there and must be read
            from the changelog by Spark.
        count: number of change rows.
        change: what of it is known without reading it.
    """

    table: TableName
    after: int
    through: int
    rows: pa.Table | None
    count: int
    change: Change = Change.CHANGES


Deltas = Mapping[TableName, Delta]


@dataclass
class Registry:
    """All tables of the warehouse, upstreams first.

    Args:
        shadow_one_in: every so many refreshes of a table its alternative runs, too; 0 for never.
        limits: of micro-batches, whatever the table.
    """

    tables: dict[TableName, Table] = field(default_factory=dict)
    shadow_one_in: int = 0
    limits: Limits = field(default_factory=Limits)

    def __getitem__(self, name: TableName) -> Table:
        return self.tables[name]

    def upstreams(self, table: Table) -> dict[TableName, Table]:
        """The materialized tables this one reads; empty for stg."""
        return {u: self.tables[u] for u in table.spec.upstreams if not isinstance(u, SourceTable)}

    def referenced(self, table: Table) -> list[Table]:
        """As `upstreams`, one for each reference of the query, in order of appearance."""
        named = (r.upstream for r in table.spec.references)
        return [self.tables[u] for u in named if not isinstance(u, SourceTable)]

    def versions(self, table: Table) -> dict[str, int]:
        """The present versions of its upstreams."""
        return {str(name): upstream.store.version for name, upstream in self.upstreams(table).items()}

    def behind(self, table: Table) -> int:
        """Versions of its upstreams that a table does not cover yet."""
        upstreams = self.upstreams(table).items()
        return sum(u.store.version - table.reached.get(str(n), 0) for n, u in upstreams)

    def __iter__(self) -> Iterator[Table]:
        return iter(self.tables.values())
