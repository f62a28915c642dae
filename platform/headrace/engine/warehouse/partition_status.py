"""What the warehouse says of complete partitions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from headrace.catalog.completions import Completed, Completions, Summary
from headrace.engine.ingest.watermark import watermark
from headrace.engine.partitions.completion import Closing
from headrace.engine.partitions.run_modes import DIFFERS, REPAIRED
from headrace.engine.table.table import Registry, Table
from headrace.errors import TerminalError
from headrace.results import CompletePartition, TableStatus
from headrace.spec.model import TableSpec

WAITING = "WAITING"

REMEMBERED = timedelta(days=1)
"""How long status tells of a partition that was repaired."""


def partitions_told(spec: TableSpec, known: Completions) -> list[dict[str, Any]]:
    """`SHOW PARTITIONS`, oldest first.

    Raises:
        TerminalError: the table has no partitions by time.
    """
    if spec.partition_format is None:
        raise TerminalError(
            f"`{spec.name}` has no partitions by time. Next: declare PARTITIONED BY with a date-formatter, "
            "then `headrace apply`"
        )
    return [_told(found).model_dump(mode="json") for found in known.of(spec.name)]


def _told(found: Completed) -> CompletePartition:
    return CompletePartition(
        label=found.label,
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
    closing: Closing | None,
) -> TableStatus:
    """The status with how far the table is in its sources' time, and what of its partitions is complete.

    Args:
        known: see `summaries`.
    """
    ms, told = watermark(registry, table), list(status.warnings)
    found = {"run_mode": str(table.spec.run_mode), "watermark": _moment(ms) if ms else None}
    looked = known.get(str(table.name)) if table.spec.partition_format is not None else None
    told += closing.told(table.name) if closing is not None else []
    if looked is None:
        return status.model_copy(update={**found, "warnings": told})
    told += _differences(looked.of(DIFFERS), "still differ from their batch")
    told += _differences(looked.of(REPAIRED), "differed from their batch and were repaired")
    if looked.late:
        told.append(f"{looked.late} late changes of complete partitions were let be")
    return status.model_copy(
        update={
            **found,
            "complete_through": table.store.commit.complete_through or looked.through,
            "outcomes": looked.turn,
            "late_changes": looked.late,
            "warnings": told,
        }
    )


def _differences(found: list[Completed], what: str) -> list[str]:
    if not found:
        return []
    return [f"partitions {', '.join(p.label for p in found[-5:])} {what}: `SHOW PARTITIONS` tells more"]


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
