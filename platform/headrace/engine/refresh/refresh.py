"""Advancing one derived table to its upstreams' present versions: one net change, one commit."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.engine.compaction.compaction import compact, snapshot_commit, warm_head
from headrace.engine.refresh.audit import audit
from headrace.engine.refresh.constraints import check_violations, gathered
from headrace.engine.refresh.decision import Refresh, candidates, decide, recomputing, remember, whole_query
from headrace.engine.refresh.shadow import compare, due
from headrace.engine.refresh.strategies.executors import EXECUTORS
from headrace.engine.refresh.upstream_change import changes_since, corrected
from headrace.engine.refresh.work import Frames, Work
from headrace.engine.rows.cells import TooLarge, TooWide
from headrace.engine.rows.diff import check_unique, count_kinds, net_frame
from headrace.engine.spark.persisted import Persisted
from headrace.engine.spark.query import run, with_violations
from headrace.engine.spark.sessions import Sessions
from headrace.engine.table.immutable import mutable
from headrace.engine.table.offline_bound import refuse_bounded
from headrace.engine.table.table import Delta, Registry, Table
from headrace.errors import NeedsResync
from headrace.planner.policy.choice import Place
from headrace.planner.strategies import Strategy
from headrace.spec.model import CorrectionPolicy, TableName
from headrace.store.frames import local
from headrace.store.live.head import Head
from headrace.store.record.commits import Commit
from headrace.store.schema import KIND, STREAM

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)


def _gone(table: Table, upstream: Table, after: int) -> str:
    return (
        f"`{table.name}`: the changes of `{upstream.name}` after version {after} are gone, retention kept "
        f"those after version {upstream.store.changelog.removed}. Next: `headrace refresh {table.name} --all`"
    )


def refresh_table(
    sessions: Sessions,
    registry: Registry,
    table: Table,
    known: Mapping[TableName, Delta],
    *,
    run_id: str,
    batch: int = -1,
    cut: Mapping[TableName, Head] | None = None,
    force: str | None = None,
    recompute: bool = False,
) -> Delta | None:
    """Bring `table` to its upstreams' present versions.

    Args:
        recompute: run the touched partitions again whole, or the whole query where they are not known.
        cut: upstreams as they stood at one cut of the source, for a table that is refreshed beside its flow.
        known: changes that this micro-batch already has in memory; others are read from changelogs.
        force: `INCREMENTAL`, `FULL` or a strategy's name, in place of the choice by cost.
    Returns:
        The table's own net change, or None where nothing changed.
    Raises:
        ConstraintViolated: a new row breaks a FAIL constraint or the primary key. Nothing is committed.
        StrategiesDiffer: a shadow run gave another change. Nothing is committed.
        TerminalError: the batch alone has written the table, and not all of its partitions.
        ValueError: the table has no such strategy as `force` names.
    """
    upstreams = registry.upstreams(table)
    with table.store.writing:
        refuse_bounded(table)
        return _refresh(
            sessions,
            table,
            upstreams,
            known,
            cut or {},
            run_id=run_id,
            batch=batch,
            force=force,
            recompute=recompute,
            shadow_one_in=registry.shadow_one_in,
        )


def _refresh(
    sessions: Sessions,
    table: Table,
    upstreams: dict[TableName, Table],
    known: Mapping[TableName, Delta],
    cut: Mapping[TableName, Head],
    *,
    run_id: str,
    batch: int,
    force: str | None,
    recompute: bool,
    shadow_one_in: int,
) -> Delta | None:
    warm_head(sessions.large, table, run_id=run_id)
    heads = {
        name: cut.get(name) or warm_head(sessions.large, u, run_id=run_id) for name, u in upstreams.items()
    }
    recorded = table.reached
    if any(head.commit.version < recorded.get(str(name), 0) for name, head in heads.items()):
        return None  # somebody else brought it past this cut meanwhile
    if any(heads[name].commit.rewinds != u.store.commit.rewinds for name, u in upstreams.items()):
        return None  # an upstream was rewound since the cut was taken
    policy = table.spec.correction_policy
    deltas = {}
    few = table.limits.changed
    for name, upstream in upstreams.items():
        after = recorded.get(str(name), 0)
        if heads[name].commit.version > after:
            if after < upstream.store.changelog.removed:
                if table.store.version > 0:
                    raise NeedsResync(_gone(table, upstream, after))
                # A table that holds nothing reads what is there, not what changed.
                rows = max(1, heads[name].commit.rows)
                deltas[name] = Delta(name, after, heads[name].commit.version, None, rows)
                continue
            found = changes_since(upstream, heads[name], after, known.get(name), policy=policy, limit=few)
            if found.count:
                deltas[name] = found
    reached = {str(n): h.commit.version for n, h in heads.items()}
    first = table.store.version == 0 and not table.run.covered  # an aggregate has a row over no rows
    if not deltas and not first:
        table.run.covered = reached
        return None
    commit = table.store.commit.next(
        "stream",
        run_id,
        upstreams=reached,
        template=table.template,
        batch=batch,
        source_ms=max(h.commit.source_ms for h in heads.values()),
        reads={str(name): delta.count for name, delta in deltas.items()},
    )
    place = _place(table, deltas, known)
    again = recomputing(table, asked=recompute, corrected=any(corrected(d, policy) for d in deltas.values()))
    refresh = decide(table, upstreams, deltas, commit, place=place, force=force, again=again)
    skip = policy is CorrectionPolicy.SKIP
    shadowed = due(table, shadow_one_in) and again is None and not commit.immutable_before
    work = Work(sessions, table, upstreams, heads, deltas, skip, shadowed)
    delta = _carry_out(work, refresh, force=force, again=again)
    if refresh.decision is not None:
        remember(table, refresh.decision)
    table.run.covered = reached
    return delta


def _carry_out(work: Work, refresh: Refresh, *, force: str | None, again: Strategy | None) -> Delta | None:
    if refresh.features.place == "driver" and EXECUTORS[type(refresh.strategy)].in_driver is not None:
        try:
            return _in_driver(work, refresh)
        except TooLarge:
            log.info("%s: the change touches too many rows for the driver", work.table.name)
            large = decide(
                work.table,
                work.upstreams,
                work.deltas,
                refresh.commit,
                place="cluster",
                force=force,
                again=again,
            )
            refresh.give_up(large.choice, large.strategy)
        except TooWide as why:
            refresh.give_up(*whole_query(refresh, str(why)))
    return _on_cluster(work, refresh)


def _shadow(work: Work, refresh: Refresh, changes: DataFrame | pa.Table) -> None:
    """Where it is due, run the alternative and compare. Raises StrategiesDiffer."""
    others = [s for name, s in candidates(work.table).items() if name != refresh.strategy.name]
    if not work.shadowed or not others or work.table.store.version == 0:
        return
    spark, names = work.sessions.large, (refresh.strategy.name, others[0].name)

    with Persisted() as persist:
        try:
            alternative = partial(_plan_on_spark, work, refresh.commit, others[0], persist)
            refresh.shadowed(names[1], compare(spark, work.table, changes, alternative, names))
        except TooWide as why:
            log.info("%s: nothing to compare with: %s", work.table.name, why)


def _in_driver(work: Work, refresh: Refresh) -> Delta | None:
    table, run_it = work.table, EXECUTORS[type(refresh.strategy)].in_driver
    assert run_it is not None
    changes = run_it(work, refresh.strategy)
    changes = mutable(changes, table)
    audit(work.sessions.flow, table, changes)
    refresh.record("driver", changes.num_rows)
    _shadow(work, refresh, changes)
    if not changes.num_rows:
        return None
    commit = refresh.commit
    table.store.append(changes, commit, origin=STREAM)
    table.run.seen(commit)
    return Delta(table.name, commit.version - 1, commit.version, changes, changes.num_rows)


def _on_cluster(work: Work, refresh: Refresh) -> Delta | None:
    spark, table = work.sessions.large, work.table
    upstream_rows = max(u.store.commit.rows for u in work.upstreams.values())
    if table.store.version == 0 and upstream_rows <= table.limits.rows:
        return _first_load(spark, work, refresh)
    if (rows := _of_many(work, refresh)) is not None:
        rows = mutable(rows, table)
        return _commit_large(work, refresh, rows, count_kinds(rows), place="arrow")
    with Persisted() as persist:
        try:
            changes = _plan_on_spark(work, refresh.commit, refresh.strategy, persist)
        except TooWide as why:
            refresh.choice, refresh.strategy = whole_query(refresh, str(why))
            changes = _plan_on_spark(work, refresh.commit, refresh.strategy, persist)
        changes = persist(mutable(changes, table))
        kinds = count_kinds(changes)
        count = sum(kinds.values())
        found = gathered(changes, table, count) if count else changes
        return _commit_large(work, refresh, found, kinds)


def _commit_large(
    work: Work,
    refresh: Refresh,
    changes: pa.Table | DataFrame,
    kinds: Counter[str],
    *,
    place: Place = "cluster",
) -> Delta | None:
    """Commit what a large change of the upstreams has done, and compact the table."""
    table, count = work.table, sum(kinds.values())
    audit(work.sessions.large, table, changes)
    refresh.record(place, count)
    _shadow(work, refresh, changes)
    if not count:
        return None
    commit = refresh.commit
    rows = changes if isinstance(changes, pa.Table) else None
    if rows is not None and count <= table.limits.small and table.store.version:  # much read, little changed
        table.store.append(rows, commit, origin=STREAM)
        table.run.seen(commit)
    else:
        table.store.append_large(changes, commit, origin=STREAM, kinds=kinds)
        table.run.seen(commit)
        compact(work.sessions.large, table, run_id=commit.run_id)
    return Delta(table.name, commit.version - 1, commit.version, rows, count)


def _place(table: Table, deltas: Mapping[TableName, Delta], known: Mapping[TableName, Delta]) -> Place:
    """Who works. What a micro-batch has at hand Arrow compares already where it is no small change."""
    limits = table.limits
    large = any(d.count > limits.small for name, d in deltas.items() if name in known)
    in_driver = all(d.rows is not None and d.count <= limits.changed for d in deltas.values())
    if (large or not in_driver) and _by_arrow(table, deltas):
        return "arrow"
    return "driver" if in_driver else "cluster"


def _by_arrow(table: Table, deltas: Mapping[TableName, Delta]) -> bool:
    """Whether the change of the one upstream is in the driver, and Arrow can compare the table's rows."""
    schema, strategy = table.store.schema, table.plan.strategy
    if table.store.version == 0 or len(deltas) != 1 or not (schema.joinable and schema.comparable):
        return False
    [delta] = deltas.values()
    if delta.rows is None or delta.count > table.limits.changes:
        return False
    return EXECUTORS[type(strategy)].suits_arrow(table, strategy)


def _of_many(work: Work, refresh: Refresh) -> pa.Table | None:
    """The table's change, where the choice was made for this place and fell on its own strategy."""
    strategy = refresh.strategy
    if refresh.features.place != "arrow" or strategy is not work.table.plan.strategy:
        return None
    by_arrow = EXECUTORS[type(strategy)].by_arrow
    assert by_arrow is not None, "suited to Arrow"
    return by_arrow(work, strategy)


def _first_load(spark: SparkSession, work: Work, refresh: Refresh) -> Delta | None:
    """The whole query once, over rows that the driver has, and written by it: Spark reads no files."""
    table = work.table
    rows_of = {
        n: local(spark, work.heads[n].read(), u.store.schema.columns) for n, u in work.upstreams.items()
    }
    inputs = [rows_of[r.upstream] for r in table.spec.references]  # type: ignore[index]
    result = mutable(with_violations(run(spark, table.stored_query, inputs), table.spec), table).toArrow()
    if not result.num_rows:
        return None
    check_violations(result, table)
    rows = result.select(list(table.store.schema.stored_names))
    check_unique(rows, table.store.schema, table=str(table.name))
    audit(spark, table, rows)
    refresh.record("driver", rows.num_rows)
    commit = refresh.commit
    record = snapshot_commit(table, version=commit.version, compacted=commit.version, run_id=commit.run_id)
    table.store.load(rows, commit, record, tombstones=None)
    table.run.seen(commit)
    return Delta(table.name, commit.version - 1, commit.version, None, rows.num_rows)


def _plan_on_spark(work: Work, commit: Commit, strategy: Strategy, persist: Persisted) -> DataFrame:
    """The table's net change by `strategy`, over the upstreams at the cut that `commit` covers."""
    spark, table = work.sessions.large, work.table
    current = {
        n: u.store.frame(spark, version=commit.upstreams[str(n)]).select(*u.store.schema.names)
        for n, u in work.upstreams.items()
    }
    executor = EXECUTORS[type(strategy)]
    changes = {
        n: _delta_frame(spark, work.upstreams[n], d, skip_backfill=work.skip, net=executor.net)
        for n, d in work.deltas.items()
        if table.store.version > 0
    }
    return executor.on_spark(work, strategy, Frames(current, changes), persist)


def _delta_frame(
    spark: SparkSession, upstream: Table, delta: Delta, *, skip_backfill: bool, net: bool
) -> DataFrame:
    """A change as a Spark frame (stored columns and `_kind`), read back from the changelog.

    Args:
        net: one change per key.
    """
    changes = upstream.store.changelog.frame(
        spark, delta.after, delta.through, skip_backfill=skip_backfill, live=True
    )
    if net and delta.through - delta.after > 1:
        return net_frame(changes, upstream.store.schema)
    return changes.select(*upstream.store.schema.stored_names, KIND)
