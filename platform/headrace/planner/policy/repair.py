"""What a repair computes again, decided from comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.results import ParityResult
from headrace.spec.model import TableName, TableSpec
from headrace.spec.partitions.label_range import LabelRange

NO_LABEL = "None"
"""How a comparison names rows whose partition is NULL: no range holds them."""


@dataclass(frozen=True)
class RepairPlan:
    """The part of a table that differs.

    Attributes:
        labels: the partitions to compute again; None for the whole table.
        missing, extra: rows, of the comparison that found most of them.
    """

    table: TableName
    labels: LabelRange | None
    missing: int
    extra: int

    @property
    def partitions(self) -> list[str]:
        """The labels in order, none for the whole table."""
        return sorted(self.labels.only or ()) if self.labels is not None else []

    def __str__(self) -> str:
        what = ", ".join(self.partitions) or "all of it"
        return f"{self.table}: recomputing {what}, {self.missing} rows missing and {self.extra} too many"


def plan_repair(spec: TableSpec, results: Sequence[ParityResult]) -> RepairPlan | None:
    """
    Args:
        results: of one table, against batch and against its source.
    Returns:
        None where nothing differs; what could not be compared is not repaired.
    """
    wrong = [r for r in results if not r.equal and r.error is None]
    if not wrong:
        return None
    labels = frozenset(label for result in wrong for label in result.partitions)
    whole = spec.partition_format is None or not labels or NO_LABEL in labels
    return RepairPlan(
        table=spec.name,
        labels=None if whole else LabelRange.exactly(labels),
        missing=max(r.missing for r in wrong),
        extra=max(r.extra for r in wrong),
    )
