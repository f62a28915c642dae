"""The daily report by the minute: one statement lets it stream, another lets it rest again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headrace.demo.stage import Stage
from headrace.results import AlterResult

REPORT = "dws.gmv_day"


@contextmanager
def by_the_minute(stage: Stage) -> Iterator[None]:
    """Let the report stream for what happens inside; after an error it stays so.

    Raises:
        TerminalError: a statement is refused or fails.
    """
    with stage.display.step("report", f"Let the daily report {REPORT} go by the minute") as say:
        say(_alter(stage, "SET FRESHNESS = INTERVAL '1' MINUTE"))
    yield
    with stage.display.step("report_rests", f"Let {REPORT} be a daily report again") as say:
        say(_alter(stage, "RESET FRESHNESS"))


def _alter(stage: Stage, change: str) -> str:
    statement = stage.client.run(f"ALTER MATERIALIZED TABLE {REPORT} {change}")
    result = AlterResult.model_validate(statement.result)
    return f"{result.mode}: {result.mode_reason}"
