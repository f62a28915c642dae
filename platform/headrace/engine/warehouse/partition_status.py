"""What the warehouse says of complete partitions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from headrace.catalog.completions import Completed, Completions, Summary
from headrace.engine.ingest.watermark import watermark
from headrace.engine.partitions.completion import PartitionCompletion
from headrace.engine.partitions.run_modes import DIFFERS, REPAIRED
from headrace.engine.table.table import Registry, Table
from headrace.errors import TerminalError
from headrace.results import CompletePartition, TableStatus

WAITING = "WAITING"

REMEMBERED = timedelta(days=1)
"""How long status tells of a partition that was repaired."""


def partition_listing(table: Table, known: Completions) -> list[dict[str, Any]]:
    """`SHOW PARTITIONS`, oldest first.

    Raises:
        TerminalError: the table has no partitions by time.
    """
    column = table.store.schema.partition
    if table.spec.partition_format is None or column is None:
        raise TerminalError(
            f"`{table.name}` has no partitions by time. Next: declare PARTITIONED BY with a date-formatter, "
            "then `headrace apply`"
        )
    head = table.warm_head() if table.store.fits else None
    counts = None if head is None else head.counts(column)
    found = (_complete_partition(partition, counts) for partition in known.of(table.name))
    return [partition.model_dump(mode="json") for partition in found]


def _complete_partition(found: Completed, counts: Mapping[str, int] | None) -> CompletePartition:
    return CompletePartition(
        label=found.label,
        rows=None if counts is None else counts.get(found.label, 0),
        outcome=found.outcome or WAITING,
        watermark=_moment(found.watermark_ms),
        completed_at=found.completed_at,
        finished_at=found.finished_at,
        runs=found.runs,
        reopened=found.reopened,
        detail=found.detail,
        version=found.version,
        turn=found.turn,
    )


def summaries(known: Completions) -> dict[str, Summary]:
    """What status tells of the partitions of all tables, by table."""
    return known.summaries({DIFFERS: None, REPAIRED: datetime.now(UTC) - REMEMBERED})


def with_completion(
    status: TableStatus,
    table: Table,
    registry: Registry,
    known: Mapping[str, Summary],
    completion: PartitionCompletion | None,
) -> TableStatus:
    """The status with how far the table is in its sources' time, and what of its partitions is complete.

    Args:
        known: see `summaries`.
    """
    ms, warnings = watermark(registry, table), list(status.warnings)
    found = {"run_mode": str(table.spec.run_mode), "watermark": _moment(ms) if ms else None}
    summary = known.get(str(table.name)) if table.spec.partition_format is not None else None
    warnings += completion.warnings(table.name) if completion is not None else []
    if summary is None:
        return status.model_copy(update={**found, "warnings": warnings})
    warnings += _differences(summary.of(DIFFERS), "still differ from their batch")
    warnings += _differences(summary.of(REPAIRED), "differed from their batch and were repaired")
    if summary.late:
        warnings.append(f"{summary.late} late changes of complete partitions were let be")
    return status.model_copy(
        update={
            **found,
            "complete_through": table.store.commit.complete_through or summary.through,
            "outcomes": summary.turn,
            "late_changes": summary.late,
            "warnings": warnings,
        }
    )


def _differences(found: list[Completed], what: str) -> list[str]:
    if not found:
        return []
    return [f"partitions {', '.join(p.label for p in found[-5:])} {what}: `SHOW PARTITIONS` tells more"]


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
