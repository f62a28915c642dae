"""Repair by difference: prove, recompute only the partitions that differ, prove again; upstreams first."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.engine.table.table import Table
from headrace.errors import Cancelled, HeadraceError
from headrace.planner.policy.repair import plan_repair
from headrace.progress import Progress
from headrace.results import ParityResult, RefreshResult, Repaired
from headrace.spec.partitions.label_range import LabelRange

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Repair:
    """What a repair is made of; each step belongs to somebody else.

    Args:
        verify: compares a table with its SQL and, for stg, with its source.
        refresh: recomputes a range of a table.
        follow: brings a table to its upstreams' present versions, corrections of them included.
        corrected: told of a table whose rows were corrected: its consumers do what their policies say.
    """

    verify: Callable[[Table], list[ParityResult]]
    refresh: Callable[[Table, LabelRange | None], RefreshResult]
    follow: Callable[[Table], None]
    corrected: Callable[[Table], None]

    def run(self, tables: Sequence[Table], progress: Progress) -> list[ParityResult]:
        """The last comparison of every table, with what was done where an earlier one differed.

        Args:
            tables: upstreams first, so that a table is held to upstreams that are right.
        """
        found: list[ParityResult] = []
        for done, table in enumerate(tables):
            progress.report(f"comparing {table.name}", done, len(tables))
            found += self._table(table, progress)
        progress.report("repaired", len(tables), len(tables))
        return found

    def _table(self, table: Table, progress: Progress) -> list[ParityResult]:
        self.follow(table)
        before = self.verify(table)
        plan = plan_repair(table.spec, before)
        if plan is None:
            return before
        progress.report(str(plan))
        try:
            done = self.refresh(table, plan.labels)
        except Cancelled:
            raise
        except HeadraceError as error:
            log.warning("repair of %s: %s", table.name, error)
            for result in before:
                if not result.equal and result.error is None:
                    result.error = f"not repaired: {error}"
            return before
        self.corrected(table)
        progress.report(f"proving {table.name} again")
        repaired = Repaired(
            partitions=plan.partitions,
            missing=plan.missing,
            extra=plan.extra,
            inserted=done.inserted,
            updated=done.updated,
            deleted=done.deleted,
            seconds=done.seconds,
        )
        return [result.model_copy(update={"repaired": repaired}) for result in self.verify(table)]
