"""A backfill of several hours in the middle of the load, and whether the stream minded."""

from __future__ import annotations

import time

from headrace.demo.display import Say
from headrace.demo.freshness import FreshnessProbe, delays, summarize
from headrace.demo.load import LoadGenerator
from headrace.demo.report import BackfillFigures
from headrace.demo.stage import WATCHED, Stage
from headrace.demo.waiting import raise_if_halted, wait_for
from headrace.errors import TerminalError
from headrace.results import RefreshResult, Statement
from headrace.storage.location import delta_table

HOURS = (30, 25)
"""First and last hour, counted back from the probe's: closed hours that are full of orders."""
ADVANCE_TIMEOUT = 60.0


def backfill(stage: Stage, probe: FreshnessProbe, load: LoadGenerator, say: Say) -> BackfillFigures:
    """Recompute the hours; what the stream had wrong, or that it stood still, becomes a problem."""
    start, end = (stage.label(hours_before_probe=hours) for hours in HOURS)
    # Only a tick that is committed after the backfill began proves that the stream went on beside it.
    tick_at_start = load.last_tick or 0
    emitted_before = _emitted(stage)

    def follow(statement: Statement) -> None:
        say(f"backfill of {start}…{end}: {statement.message}")

    began = time.monotonic()
    statement = stage.client.run(
        f"ALTER MATERIALIZED TABLE {WATCHED} REFRESH PARTITION (logdate BETWEEN '{start}' AND '{end}')",
        follow,
    )
    ended = time.monotonic()
    result = RefreshResult.model_validate(statement.result)
    advanced = _went_on(stage, probe, tick_at_start, say)
    seen = delays(load.ticks, probe.reads)
    committed = dict(load.ticks)
    figures = BackfillFigures(
        table=WATCHED,
        start=start,
        end=end,
        partitions=len(result.partitions),
        rows=result.rows,
        seconds=round(ended - began, 2),
        corrections=result.inserted + result.updated + result.deleted,
        emitted=_emitted(stage) - emitted_before,
        ticks_meanwhile=sum(began <= committed[tick] + delay <= ended for tick, delay in seen.items()),
        stream_advanced=advanced,
        freshness=summarize([delay for tick, delay in seen.items() if began <= committed[tick] <= ended]),
        span=(began, ended),
    )
    if figures.corrections or figures.emitted:
        stage.report.problems.append(
            f"the backfill of {WATCHED} found {figures.corrections} rows that the stream had wrong "
            f"({result.inserted} inserted, {result.updated} updated, {result.deleted} deleted) "
            f"and emitted {figures.emitted}"
        )
    return figures


def _went_on(stage: Stage, probe: FreshnessProbe, tick_at_start: int, say: Say) -> bool:
    try:
        wait_for(
            "the stream beside the backfill",
            lambda: None if (probe.visible or 0) > tick_at_start else "no newer tick visible",
            timeout=ADVANCE_TIMEOUT,
            say=say,
        )
        raise_if_halted(stage.client.status())
    except TerminalError as error:
        stage.report.problems.append(str(error))
        return False
    return True


def _emitted(stage: Stage) -> int:
    """Changelog rows of the watched table that backfills wrote, counted without asking the server."""
    import pyarrow.dataset as ds

    from headrace.store.schema import BACKFILL, ORIGIN

    layer, _, name = WATCHED.partition(".")
    changelog = delta_table(stage.settings.warehouse / layer / name / "changelog")
    return int(changelog.to_pyarrow_dataset().count_rows(filter=ds.field(ORIGIN) == BACKFILL))
