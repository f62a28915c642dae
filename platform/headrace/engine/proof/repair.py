"""Repair by difference: prove, recompute only the partitions that differ, prove again; upstreams first."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.engine.table.table import Table
from headrace.errors import Cancelled, HeadraceError
from headrace.progress import Progress
from headrace.results import ParityResult, RefreshResult, Repaired
from headrace.spec.partitions.label_range import LabelRange

log = logging.getLogger(__name__)

NO_LABEL = "None"
"""How a comparison names rows whose partition is NULL: no range holds them."""


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
        wrong = [r for r in before if not r.equal and r.error is None]
        if not wrong:
            return before
        labels = differing(table, wrong)
        partitions = labels.among(labels.only or ()) if labels is not None else []
        what = ", ".join(partitions) or "all of it"
        progress.report(f"{table.name}: recomputing {what}")
        try:
            done = self.refresh(table, labels)
        except Cancelled:
            raise
        except HeadraceError as error:
            log.warning("repair of %s: %s", table.name, error)
            for result in wrong:
                result.error = f"not repaired: {error}"
            return before
        self.corrected(table)
        progress.report(f"proving {table.name} again")
        repaired = Repaired(
            partitions=partitions,
            missing=max(r.missing for r in wrong),
            extra=max(r.extra for r in wrong),
            inserted=done.inserted,
            updated=done.updated,
            deleted=done.deleted,
            seconds=done.seconds,
        )
        return [result.model_copy(update={"repaired": repaired}) for result in self.verify(table)]


def differing(table: Table, wrong: Sequence[ParityResult]) -> LabelRange | None:
    """The partitions in which the comparisons found a difference; the whole table where it has none."""
    labels = frozenset(label for result in wrong for label in result.partitions)
    if table.spec.partition_format is None or not labels or NO_LABEL in labels:
        return None
    return LabelRange.exactly(labels)
