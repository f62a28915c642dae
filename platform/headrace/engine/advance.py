"""Advancing one derived table to its upstreams' present versions: one net change, one commit."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace.engine import cluster, driver
from headrace.engine.compaction import DRIVER_ROWS, compact, snapshot_commit
from headrace.engine.diff import check_unique, net_local
from headrace.engine.query import run, with_violations
from headrace.engine.table import Delta, Registry, Table
from headrace.planner.strategies import AffectedKeys, AffectedPartitions, Full, Row
from headrace.spec.model import CorrectionPolicy, TableName
from headrace.store.commits import Commit
from headrace.store.schema import KIND, STREAM
from headrace.store.tables import Head

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

SMALL = 20_000
"""Change rows up to which a refresh stays in the driver."""

FULL_SHARE = 0.3
"""Share of the driving table beyond which running the whole query is cheaper than restricting it."""


@dataclass(frozen=True)
class Sessions:
    """Spark sessions by the kind of work."""

    flow: SparkSession
    batch: SparkSession


def changes_since(
    upstream: Table, head: Head, after: int, known: Delta | None, *, skip_backfill: bool
) -> Delta:
    """The upstream's change in `(after, head.version]`: the one at hand, or read from its changelog."""
    through = head.commit.version
    if known is not None and known.after == after and known.through == through:
        return known
    log_store = upstream.store.changelog
    count = log_store.count(after, through)
    if count > SMALL:
        return Delta(upstream.name, after, through, None, count)
    rows = log_store.read(after, through, skip_backfill=skip_backfill)
    return Delta(upstream.name, after, through, rows, rows.num_rows)


def netted(delta: Delta, upstream: Table) -> Delta:
    """One change per key. Only ROW needs it: elsewhere the rows in between are touched ones too."""
    if delta.rows is None or delta.through - delta.after <= 1:
        return delta
    rows = net_local(delta.rows, upstream.store.schema)
    return replace(delta, rows=rows, count=rows.num_rows)


def advance(
    sessions: Sessions,
    registry: Registry,
    table: Table,
    known: Mapping[TableName, Delta],
    *,
    run_id: str,
    batch: int = -1,
) -> Delta | None:
    """Bring `table` to its upstreams' present versions.

    Args:
        known: changes that this micro-batch already has in memory; others are read from changelogs.
    Returns:
        The table's own net change, or None where nothing changed.
    Raises:
        ConstraintViolated: a new row breaks a FAIL constraint or the primary key. Nothing is committed.
    """
    upstreams = registry.upstreams(table)
    with table.store.writing:
        return _advance(sessions, table, upstreams, known, run_id=run_id, batch=batch)


def _advance(
    sessions: Sessions,
    table: Table,
    upstreams: dict[TableName, Table],
    known: Mapping[TableName, Delta],
    *,
    run_id: str,
    batch: int,
) -> Delta | None:
    for upstream in (table, *upstreams.values()):
        if upstream.store.cold:
            compact(sessions.batch, upstream, run_id=run_id)
    heads = {name: u.store.head() for name, u in upstreams.items()}
    recorded = table.reached
    skip = table.spec.correction_policy is CorrectionPolicy.SKIP
    deltas = {}
    for name, upstream in upstreams.items():
        after = recorded.get(str(name), 0)
        if heads[name].commit.version > after:
            deltas[name] = changes_since(upstream, heads[name], after, known.get(name), skip_backfill=skip)
    reached = {str(n): h.commit.version for n, h in heads.items()}
    if not any(d.count for d in deltas.values()):
        table.covered = reached
        return None
    commit = Commit(
        table=str(table.name),
        mode="stream",
        version=table.store.version + 1,
        upstreams=reached,
        template=table.template,
        run_id=run_id,
        batch=batch,
        source_ms=max(h.commit.source_ms for h in heads.values()),
    )
    delta = _apply(sessions, table, upstreams, heads, deltas, commit, skip=skip)
    table.covered = reached
    return delta


def _apply(
    sessions: Sessions,
    table: Table,
    upstreams: dict[TableName, Table],
    heads: dict[TableName, Head],
    deltas: dict[TableName, Delta],
    commit: Commit,
    *,
    skip: bool,
) -> Delta | None:
    strategy = table.plan.strategy
    small = all(d.rows is not None and d.count <= SMALL for d in deltas.values())
    if small and not isinstance(strategy, Full) and table.store.version > 0:
        try:
            return _in_driver(sessions.flow, table, upstreams, heads, deltas, commit)
        except driver.TooLarge:
            log.info("%s: the change touches too many rows for the driver", table.name)
    return _on_cluster(sessions.batch, table, upstreams, deltas, commit, skip=skip)


def _in_driver(
    spark: SparkSession,
    table: Table,
    upstreams: dict[TableName, Table],
    heads: dict[TableName, Head],
    deltas: dict[TableName, Delta],
    commit: Commit,
) -> Delta | None:
    strategy = table.plan.strategy
    if isinstance(strategy, Row):
        (name,) = upstreams
        changes = driver.row_changes(spark, table, upstreams[name], netted(deltas[name], upstreams[name]))
    else:
        assert isinstance(strategy, AffectedKeys | AffectedPartitions)
        changes = driver.affected_changes(spark, table, strategy, upstreams, heads, deltas)
    if not changes.num_rows:
        return None
    table.store.append(changes, commit, origin=STREAM)
    table.seen(commit)
    return Delta(table.name, commit.version - 1, commit.version, changes, changes.num_rows)


def _on_cluster(
    spark: SparkSession,
    table: Table,
    upstreams: dict[TableName, Table],
    deltas: dict[TableName, Delta],
    commit: Commit,
    *,
    skip: bool,
) -> Delta | None:
    current = {
        n: u.store.frame(spark, version=commit.upstreams[str(n)]).select(*u.store.schema.names)
        for n, u in upstreams.items()
    }
    frames = {
        n: cluster.delta_frame(
            spark, upstreams[n], d, skip_backfill=skip, net=isinstance(table.plan.strategy, Row)
        )
        for n, d in deltas.items()
        if d.count
    }
    if table.store.version == 0 and max(u.store.commit.rows for u in upstreams.values()) <= DRIVER_ROWS:
        return _first_load(spark, table, current, commit)
    changes = _plan_on_cluster(spark, table, upstreams, current, frames, deltas).persist()
    try:
        kinds = {row[KIND]: row["count"] for row in changes.groupBy(KIND).count().collect()}
        if not kinds:
            return None
        cluster.check_changes(changes, table)
        count = sum(kinds.values())
        if count <= SMALL and table.store.version > 0:  # much was read, little has changed
            rows = changes.toArrow()
            table.store.append(rows, commit, origin=STREAM)
            table.seen(commit)
            return Delta(table.name, commit.version - 1, commit.version, rows, count)
        table.store.append_frame(changes, commit, origin=STREAM, kinds=kinds)
        table.seen(commit)
    finally:
        changes.unpersist()
    compact(spark, table, run_id=commit.run_id)
    return Delta(table.name, commit.version - 1, commit.version, None, count)


def _first_load(
    spark: SparkSession, table: Table, current: dict[TableName, DataFrame], commit: Commit
) -> Delta | None:
    """The whole query once, its rows written by the driver."""
    inputs = [current[r.upstream] for r in table.spec.references]  # type: ignore[index]
    result = with_violations(run(spark, table.spec, inputs), table.spec).toArrow()
    if not result.num_rows:
        return None
    driver.check_violations(result, table)
    rows = result.select(list(table.store.schema.stored_names))
    check_unique(rows, table.store.schema, table=str(table.name))
    record = snapshot_commit(table, version=commit.version, compacted=commit.version, run_id=commit.run_id)
    table.store.load(rows, commit, record, tombstones=None)
    table.seen(commit)
    return Delta(table.name, commit.version - 1, commit.version, None, rows.num_rows)


def _plan_on_cluster(
    spark: SparkSession,
    table: Table,
    upstreams: dict[TableName, Table],
    current: dict[TableName, DataFrame],
    frames: dict[TableName, DataFrame],
    deltas: dict[TableName, Delta],
) -> DataFrame:
    strategy = table.plan.strategy
    empty = table.store.version == 0
    if isinstance(strategy, Row) and not empty:
        (name,) = upstreams
        return cluster.row_changes(spark, table, upstreams[name], frames[name])
    references = [r.upstream for r in table.spec.references]
    if isinstance(strategy, AffectedKeys | AffectedPartitions) and not empty:
        size = upstreams[references[strategy.driving]].store.commit.rows  # type: ignore[index]
        if sum(d.count for d in deltas.values()) <= FULL_SHARE * max(size, 1):
            return cluster.affected_changes(spark, table, strategy, current, frames)
    inputs = [current[name] for name in references]  # type: ignore[index]
    return cluster.full_changes(spark, table, inputs, empty=empty)
