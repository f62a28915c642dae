"""Playing one case in one mode: the same rows come to the table's upstreams by another way in each.

batch: all at once, and the table's SQL runs over them. stream: one change a micro-batch, as a flow has them
at hand. incremental: many changes at once, out of changelogs, as a schedule finds them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.cases.held import Change, Held, halves, one_by_one
from headrace.cases.model import Case, GivenRow, Step, Upstream
from headrace.cases.sandbox import Sandbox
from headrace.cases.topic import Topic
from headrace.cases.values import rows_of
from headrace.engine.refresh.audit import audit
from headrace.engine.refresh.constraints import check_changes
from headrace.engine.refresh.refresh import refresh_table
from headrace.engine.rows.batch_rows import batch_rows
from headrace.engine.spark.query import run
from headrace.engine.table.table import Delta, Registry, Table, is_stg
from headrace.spec.model import TableName
from headrace.store.frames import local
from headrace.store.live.head import Cold
from headrace.store.schema import DELETE, INSERT, KIND, STREAM, UPDATE_AFTER, UPDATE_BEFORE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RUN_ID = "cases"


class Mode(StrEnum):
    """Ways in which a table comes to its rows."""

    BATCH = "batch"
    STREAM = "stream"
    INCREMENTAL = "incremental"


def play(
    sandbox: Sandbox, name: TableName, case: Case, mode: Mode, root: Path
) -> Iterator[tuple[Step, pa.Table]]:
    """Each step of the case, and the table's visible rows after it.

    Args:
        root: a folder for it alone.
    Raises:
        SpecError: a value or a column that does not fit.
        HeadraceError: what the refresh or the query raises.
    """
    registry = sandbox.fresh(name, root)
    table = registry[name]
    held = Held(_keys(registry, table))
    player = (_SourcePlayer if is_stg(table) else _Player)(sandbox, registry, table, mode, root)
    for step in case.steps:
        changes = held.step(step)
        if mode is Mode.BATCH:
            yield step, player.batch(held)
            continue
        parts = one_by_one(changes) if mode is Mode.STREAM else halves(changes)
        for part in parts:
            player.apply(part)
        if not changes:
            player.apply([])
        yield step, player.rows()


def _keys(registry: Registry, table: Table) -> dict[Upstream, tuple[str, ...]]:
    if is_stg(table):
        return {table.source.table: table.source.key}
    return {name: upstream.store.schema.key for name, upstream in registry.upstreams(table).items()}


class _Player:
    """Of a derived table: changes are commits of its upstreams."""

    def __init__(self, sandbox: Sandbox, registry: Registry, table: Table, mode: Mode, root: Path) -> None:
        self.sandbox = sandbox
        self.registry = registry
        self.table = table
        self.mode = mode

    def apply(self, changes: Sequence[Change]) -> None:
        known: dict[TableName, Delta] = {}
        for name in {change.upstream for change in changes}:
            assert isinstance(name, TableName)
            delta = _commit(self.registry[name], [c for c in changes if c.upstream == name])
            if self.mode is Mode.STREAM:  # others read the changelog
                known[name] = delta
        refresh_table(self.sandbox.sessions, self.registry, self.table, known, run_id=RUN_ID)

    def batch(self, held: Held) -> pa.Table:
        spark, given = self.sandbox.sessions.batch, []
        for upstream in self.registry.referenced(self.table):
            schema = upstream.store.schema
            rows = held.rows.get(upstream.name, {}).values()
            given.append(rows_of(rows, schema.columns, str(upstream.name)))
        return self.held_to_rules(batch_rows(spark, self.registry, self.table, {}, held=given))

    def held_to_rules(self, rows: DataFrame) -> pa.Table:
        """The rows of a batch, which is to break no constraint and no expectation, as in the other modes."""
        from pyspark.sql import functions as F

        check_changes(rows.withColumn(KIND, F.lit(INSERT)), self.table)
        audit(self.sandbox.sessions.batch, self.table, rows)
        return rows.select(*self.table.store.schema.names).toArrow()

    def rows(self) -> pa.Table:
        """Those that look-ups find, where the driver holds them."""
        store, names = self.table.store, list(self.table.store.schema.names)
        with suppress(Cold):
            return store.head().read().select(names)
        return store.frame(self.sandbox.sessions.batch).select(*names).toArrow()


def _commit(upstream: Table, changes: Sequence[Change]) -> Delta:
    """The changes as one version of an upstream."""
    store, columns = upstream.store, upstream.store.schema.columns
    rows, kinds = list[GivenRow](), list[str]()
    for change in changes:
        if change.before is not None:
            rows.append(change.before)
            kinds.append(UPDATE_BEFORE if change.after is not None else DELETE)
        if change.after is not None:
            rows.append(change.after)
            kinds.append(UPDATE_AFTER if change.before is not None else INSERT)
    table = rows_of(rows, columns, str(upstream.name)).append_column(KIND, pa.array(kinds, pa.string()))
    commit = store.commit.next("stream", RUN_ID)
    store.append(table, commit, origin=STREAM)
    return Delta(upstream.name, commit.version - 1, commit.version, table, table.num_rows)


class _SourcePlayer(_Player):
    """Of a stg table: changes are messages of its topic."""

    def __init__(self, sandbox: Sandbox, registry: Registry, table: Table, mode: Mode, root: Path) -> None:
        super().__init__(sandbox, registry, table, mode, root)
        assert is_stg(table)
        self.topic = Topic(sandbox.sessions, table, root)

    def apply(self, changes: Sequence[Change]) -> None:
        self.topic.bring(changes)

    def batch(self, held: Held) -> pa.Table:
        table = self.table
        assert is_stg(table)
        rows = held.rows.get(table.source.table, {}).values()
        inputs = [local(self.sandbox.sessions.batch, self.topic.typed(rows), table.source.typed)]
        return self.held_to_rules(run(self.sandbox.sessions.batch, table.spec, inputs))
