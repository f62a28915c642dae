"""What happened to an upstream since a table last looked: classified from commit records, then net."""

from __future__ import annotations

from dataclasses import replace

import pyarrow.compute as pc

from headrace.engine.rows.diff import net
from headrace.engine.table.table import Delta, Table
from headrace.planner.policy.classify import Change, classify
from headrace.spec.model import CorrectionPolicy
from headrace.store.live.head import Head
from headrace.store.record.rewinds import live_ranges
from headrace.store.schema import BACKFILL, INSERT, KIND, ORIGIN


def changes_since(
    upstream: Table, head: Head, after: int, known: Delta | None, *, policy: CorrectionPolicy, limit: int
) -> Delta:
    """The upstream's change in `(after, head.version]`: the one at hand, or read from its changelog.

    It is net, one change per key. Only where `recompute` has corrections to follow, every image counts:
    what was wrong upstream may have come to this table or not.

    Args:
        policy: what the table that asks does with corrections.
        limit: change rows up to which they come to the driver. Nothing is read where nothing changed.
    """
    through = head.commit.version
    if known is not None and known.after == after and known.through == through:
        return netted(replace(known, change=classify([head.commit]).change), upstream)
    skip_backfill = policy is CorrectionPolicy.SKIP
    log_store = upstream.store.changelog
    ranges = live_ranges(log_store.rewinds, after, through)
    recorded = [record for begin, end in ranges for record in upstream.store.records(begin, end)]
    found = classify(recorded, skip_backfill=skip_backfill)
    if found.change is Change.NOTHING:
        return Delta(upstream.name, after, through, None, 0, found.change)
    count = sum(log_store.count(*part) for part in ranges) if found.rows is None else found.rows
    if count > limit:
        # Records that the log no longer holds may have been corrections.
        change = found.change if found.rows is not None or skip_backfill else Change.REPLACED
        return Delta(upstream.name, after, through, None, count, change)
    rows = log_store.read(after, through, skip_backfill=skip_backfill, live=True)
    corrections = BACKFILL in rows.column(ORIGIN).unique().to_pylist()
    change = Change.REPLACED if corrections else found.change
    delta = Delta(upstream.name, after, through, rows, rows.num_rows, change)
    return delta if corrected(delta, policy) else netted(delta, upstream)


def corrected(delta: Delta, policy: CorrectionPolicy) -> bool:
    """Whether the delta holds corrections that are not carried as changes."""
    return delta.change is Change.REPLACED and policy is CorrectionPolicy.RECOMPUTE


def netted(delta: Delta, upstream: Table) -> Delta:
    """One change per key, none for keys that end as they began."""
    if delta.rows is None or delta.through - delta.after <= 1 or delta.change is Change.APPEND:
        return delta
    rows = net(delta.rows, upstream.store.schema)
    change: Change = delta.change
    if not rows.num_rows:
        change = Change.NOTHING
    elif pc.all(pc.equal(rows.column(KIND), INSERT)).as_py():
        change = Change.APPEND
    return replace(delta, rows=rows, count=rows.num_rows, change=change)
