"""One materialized table at run time: what it declares, how it is refreshed, where it is stored."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

import pyarrow as pa

from headrace.engine.spark.prepared import Queries
from headrace.percentile import percentile
from headrace.planner.plan import Plan
from headrace.planner.policy.classify import Change
from headrace.sources.postgres import SourceSchema
from headrace.spec.model import RefreshMode, SourceTable, TableName, TableSpec
from headrace.store.live.head import Cold, Head
from headrace.store.record.commits import Commit
from headrace.store.record.decision import Decision
from headrace.store.tables import StoredTable

LATENCIES = 1024
"""Newest commits of a table whose latencies are remembered."""


@dataclass
class Table:
    """Everything the engine knows about one table.

    Args:
        source: schema of the captured table (stg only).
        template: hash of the definition; part of every commit.
    """

    spec: TableSpec
    plan: Plan
    mode: RefreshMode
    mode_reason: str
    store: StoredTable
    template: str
    source: SourceSchema | None = None
    freshness: timedelta | None = None
    """Declared, or of the tightest consumer."""
    covered: dict[str, int] = field(default_factory=dict)
    """Upstream versions found to change nothing since the recorded frontier; in memory only."""

    @property
    def reached(self) -> dict[str, int]:
        """Upstream versions that the table's present rows cover: the recorded frontier, or later."""
        recorded = self.store.commit.upstreams
        names = {*recorded, *self.covered}
        return {n: max(recorded.get(n, 0), self.covered.get(n, 0)) for n in names}

    reshaped: bool = False
    """Whether its rows have another shape than it declares: columns, key or partition."""

    extended: TableSpec | None = None
    """The declaration with the hidden columns in its query, where the table has any."""

    @property
    def stored_query(self) -> TableSpec:
        """What to run for rows with all stored columns."""
        return self.extended or self.spec

    arrow_agrees: bool = False
    """Whether Arrow has given what Spark gives for rows of this table."""

    queries: Queries = field(default_factory=Queries)
    """What small changes of this table run, planned once."""

    decisions: deque[Decision] | None = None
    """Past decisions, oldest first; None before they were read back."""

    refreshes: int = 0
    """Refreshes by this process."""

    latency: float | None = None
    """Seconds from the source's commit to this table's, of the newest change applied."""

    latencies: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=LATENCIES))
    """When the newest commits were made, by the monotonic clock, and their latencies."""

    def seen(self, commit: Commit) -> None:
        """Note how fresh a commit just made is."""
        if commit.source_ms:
            self.latency = max(0.0, time.time() - commit.source_ms / 1000)
            self.latencies.append((time.monotonic(), self.latency))

    def measured(self, share: float, window: float) -> float | None:
        """The latency that `share` of the commits of the last `window` seconds keep; None without any."""
        since = time.monotonic() - window
        found = sorted(latency for at, latency in self.latencies.copy() if at >= since)
        return percentile(found, share) if found else None

    def warm_head(self) -> Head | None:
        """Its newest state; None where it must be compacted before rows are looked up in it."""
        try:
            return self.store.head()
        except Cold:
            return None

    @property
    def name(self) -> TableName:
        return self.spec.name


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
    """

    tables: dict[TableName, Table] = field(default_factory=dict)
    shadow_one_in: int = 0

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
