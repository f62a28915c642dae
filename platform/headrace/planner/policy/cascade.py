"""What a refreshed range of one table touches downstream, before anything runs: upstreams first."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from headrace.planner.policy.modes import Lineage
from headrace.planner.strategies.partitions import PartitionMap
from headrace.spec.model import TableName, TableSpec
from headrace.spec.partitions.label_range import LabelRange
from headrace.spec.partitions.labels import label_range


@dataclass(frozen=True)
class CascadeStep:
    """One table of a cascade.

    Attributes:
        labels: the range to run again; None for the whole table.
        reason: why this range, in words for a user.
        policy: what the table does by itself with its upstreams' corrections; empty for the first table.
    """

    table: TableName
    labels: LabelRange | None
    reason: str
    policy: str = ""


def plan_cascade(
    project: Lineage,
    maps: Mapping[TableName, PartitionMap],
    first: TableName,
    labels: LabelRange | None,
) -> tuple[CascadeStep, ...]:
    """`first` and everything downstream of it, each with the range that the refreshed one can touch.

    Args:
        maps: for each table, which columns of its upstreams carry its partition labels.
        labels: the range of `first`.
    """
    steps = {first: CascadeStep(first, labels, "the range to refresh" if labels else "the whole table")}
    for name, spec in project.tables.items():  # upstreams first
        touched = [i for i, r in enumerate(spec.references) if r.upstream in steps]
        if name in steps or not touched:
            continue
        parts = [_touched(project, spec, maps[name], i, steps) for i in touched]
        whole = [reason for found, reason in parts if found is None]
        ranges = [found for found, _ in parts if found is not None]
        reasons = dict.fromkeys(whole or [reason for _, reason in parts])
        wide = None if whole else LabelRange(min(r.start for r in ranges), max(r.end for r in ranges))
        steps[name] = CascadeStep(name, wide, "; ".join(reasons), spec.correction_policy.value)
    return tuple(steps.values())


def _touched(
    project: Lineage,
    spec: TableSpec,
    known: PartitionMap,
    reference: int,
    steps: Mapping[TableName, CascadeStep],
) -> tuple[LabelRange | None, str]:
    """The range of `spec` that a range of one of its leaves reaches, and why."""
    upstream = spec.references[reference].upstream
    assert isinstance(upstream, TableName)
    source, labels = project.tables[upstream], steps[upstream].labels
    column = known.column(reference)
    if spec.partition_column is None:
        return None, f"the whole table: {known.why_not(reference)}"
    if labels is None:
        return None, f"the whole table: all of {upstream} is run again"
    if column is None:
        return None, f"the whole table, by {upstream}: {known.why_not(reference)}"
    if source.partition_column is None or column.lower() != source.partition_column.lower():
        by = source.partition_column or "nothing"
        return None, (
            f"the whole table: `{spec.partition_column}` equals `{column}` of {upstream}, which is "
            f"partitioned by {by}"
        )
    if source.partition_format != spec.partition_format:
        return None, f"the whole table: {upstream} writes its labels as {source.partition_format}"
    return labels, f"`{spec.partition_column}` equals `{column}` of {upstream}: the same labels"


def chunks(
    spec: TableSpec, existing: Collection[str], labels: LabelRange | None, at_once: int
) -> list[LabelRange | None]:
    """The range in parts of at most `at_once` existing partitions; together they cover every label of it.

    Args:
        existing: labels that have rows here or upstream.
    """
    if labels is None or spec.partition_format is None:
        return [labels]
    every = label_range(spec, labels)
    known = [i for i, label in enumerate(every) if label in existing]
    begins = [0, *known[at_once::at_once]]
    lasts = [*(b - 1 for b in begins[1:]), len(every) - 1]
    return [LabelRange(every[b], every[e]) for b, e in zip(begins, lasts, strict=True)]
