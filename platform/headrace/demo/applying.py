"""Data of an earlier checkout: its tables become what the layer files declare now."""

from __future__ import annotations

from headrace.demo.stage import Stage
from headrace.demo.waiting import wait_for
from headrace.results import AppliedTable, ApplyResult, Statement

START_TIMEOUT = 300.0


def apply_files(stage: Stage) -> None:
    """What `headrace apply` does, as soon as the tables have started.

    Raises:
        TerminalError: they did not start in time, or the files cannot be applied.
        TransientError: something that it needs does not answer.
    """
    with stage.display.step("apply", "Apply the layer files: they differ from those of the data here") as say:
        planned: list[AppliedTable] = []

        def look() -> None:
            found = stage.client.run("APPLY DRY RUN").result
            planned[:] = ApplyResult.model_validate(found).tables

        def follow(statement: Statement) -> None:
            say(statement.message)

        wait_for("the start of the tables", look, timeout=START_TIMEOUT, say=say)
        if planned:
            stage.client.run("APPLY", follow)
        say(", ".join(f"{t.table} {t.change.lower()}" for t in planned) or "the server's start has done it")
