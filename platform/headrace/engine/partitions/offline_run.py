"""One run of the batch over a table that no stream writes."""

from __future__ import annotations

from headrace.engine.backfill.backfill import backfill
from headrace.engine.partitions.offline import Run
from headrace.engine.spark.meter import METER
from headrace.engine.spark.sessions import Sessions
from headrace.engine.table.table import Registry, Table
from headrace.progress import Progress
from headrace.results import RefreshResult
from headrace.spec.partitions.label_range import LabelRange


def write_run(
    sessions: Sessions, registry: Registry, table: Table, run: Run, run_id: str, progress: Progress
) -> RefreshResult:
    """Let the table be its query over the cut, up to the run's last partition, in one commit.

    Raises:
        ConstraintViolated, Cancelled: nothing was committed.
    """
    labels = None
    if run.labels is not None:  # without any the cut alone is recorded
        ends = run.labels or {run.through}
        labels = LabelRange(min(ends), max(ends), run.labels)
    with METER.of(table.name, "schedule", run_id) as unit:
        result = backfill(
            sessions,
            registry,
            table,
            labels,
            frontier=dict(run.cut),
            complete_through=run.through,
            run_id=run_id,
            progress=progress,
        )
        unit.changes = result.changes
    return result
