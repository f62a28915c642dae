"""A backfill with everything downstream: planned and weighed first, run in small parts, proven at the end."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from headrace.engine.table.labels import labels_of
from headrace.engine.table.table import Registry, Table
from headrace.planner.policy.cascade import CascadeStep, chunks, plan_cascade
from headrace.planner.policy.modes import Lineage
from headrace.progress import Progress
from headrace.results import CascadeResult, CascadeTable, ParityResult, RefreshResult
from headrace.spec.partitions.label_range import LabelRange

LOOK = 0.1
"""Seconds between two looks at whether a waiting cascade was cancelled."""


@dataclass(frozen=True)
class Cascade:
    """What a cascade is made of.

    Args:
        refresh: recomputes a range of a table.
        follow: brings a table to its upstreams' present versions, so that it is computed from corrected ones.
        prove: compares a range of a table with its SQL, or for stg with its source.
        at_once: partitions that one backfill takes; the streams go first between two of them.
        pause: tells the seconds between two backfills.
    """

    project: Lineage
    registry: Registry
    refresh: Callable[[Table, LabelRange | None], RefreshResult]
    follow: Callable[[Table], None]
    prove: Callable[[Table, LabelRange | None], list[ParityResult]]
    at_once: int
    pause: Callable[[], float]

    def run(
        self, first: Table, labels: LabelRange | None, *, dry_run: bool, progress: Progress
    ) -> CascadeResult:
        """Show what will run; unless `dry_run`, run it and prove it."""
        begun = time.monotonic()
        maps = {t.name: t.plan.partitions for t in self.registry}
        steps = plan_cascade(self.project, maps, first.name, labels)
        weighed = [self._weighed(step) for step in steps]
        start, end = _ends(labels)
        result = CascadeResult(table=str(first.name), start=start, end=end, dry_run=dry_run, tables=weighed)
        for i, table in enumerate(weighed):
            progress.report(
                f"plan: {table.table} {shown(table)}, {table.bytes:,} bytes: {table.reason}", i, len(weighed)
            )
        if not dry_run:
            for step, weight in zip(steps, weighed, strict=True):
                weight.refreshed = self._refresh(step, progress)
            for i, (step, weight) in enumerate(zip(steps, weighed, strict=True)):
                progress.report(f"proving {step.table}", i, len(steps))
                weight.proof = self.prove(self.registry[step.table], step.labels)
        result.seconds = time.monotonic() - begun
        return result

    def _weighed(self, step: CascadeStep) -> CascadeTable:
        table = self.registry[step.table]
        index, column = table.store.head_index(), table.store.schema.partition
        labels = [p for p in index.partitions if p is not None] if column else []
        if step.labels is not None:
            labels = step.labels.among(labels)
        start, end = _ends(step.labels)
        return CascadeTable(
            table=str(step.table),
            start=start,
            end=end,
            partitions=sorted(labels),
            bytes=index.size(None if step.labels is None else labels),
            reason=step.reason,
            policy=step.policy,
        )

    def _refresh(self, step: CascadeStep, progress: Progress) -> RefreshResult:
        table = self.registry[step.table]
        parts = chunks(table.spec, self.existing(table), step.labels, self.at_once)
        found: list[RefreshResult] = []
        for done, labels in enumerate(parts):
            if done:
                self._rest(progress)
            progress.report(f"{step.table}: part {done + 1} of {len(parts)}", done, len(parts))
            self.follow(table)
            found.append(self.refresh(table, labels))
        return _together(found)

    def existing(self, table: Table) -> set[str]:
        """Labels with rows in the table or in those that its partitions come from."""
        tables = (table, *self.registry.upstreams(table).values())
        return {label for t in tables for label in labels_of(t)}

    def _rest(self, progress: Progress) -> None:
        until = time.monotonic() + self.pause()
        while (left := until - time.monotonic()) > 0:
            progress.raise_if_cancelled()
            time.sleep(min(LOOK, left))


def shown(table: CascadeTable) -> str:
    """The range in words."""
    count = f"{len(table.partitions)} partitions"
    return f"{table.start} … {table.end}, {count}" if table.start else f"whole, {count}"


def _ends(labels: LabelRange | None) -> tuple[str, str]:
    return (labels.start, labels.end) if labels is not None else ("", "")


def _together(parts: list[RefreshResult]) -> RefreshResult:
    first, last = parts[0], parts[-1]
    return RefreshResult(
        table=first.table,
        start=first.start,
        end=last.end,
        partitions=[p for part in parts for p in part.partitions],
        rows=sum(p.rows for p in parts),
        inserted=sum(p.inserted for p in parts),
        updated=sum(p.updated for p in parts),
        deleted=sum(p.deleted for p in parts),
        version=last.version,
        seconds=sum(p.seconds for p in parts),
    )
