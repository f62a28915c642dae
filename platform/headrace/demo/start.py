"""From nothing to streams that have caught up with the shop."""

from __future__ import annotations

import time

from headrace.declared import waiting_changes
from headrace.demo import shop
from headrace.demo.applying import apply_files
from headrace.demo.display import Say
from headrace.demo.stage import Stage
from headrace.demo.waiting import not_caught_up, wait_for

SNAPSHOT_TIMEOUT = 900.0


def start_everything(stage: Stage) -> None:
    """The source first: connectors need its tables, and its snapshot is taken while Spark still starts."""
    report, display = stage.report, stage.display
    _ = stage.stg_tables  # refuse a project that is no shop before anything starts
    with display.step("source", "Start PostgreSQL") as say:
        stage.stack.up(only=["postgres"], on_progress=lambda service, text: say(f"{service}: {text}"))
    with display.step("shop", "Create the shop") as say:
        created = shop.create_shop(stage.dsn, seed=report.seed)
        rows = sum(shop.row_counts(stage.dsn).values())
        say(f"{rows:,} rows" if created else f"{rows:,} rows, kept from an earlier run")
    with display.step("capture", "Start Kafka and Debezium, register the connectors") as say:
        stage.stack.up(only=["kafka", "connect"], on_progress=lambda service, text: say(f"{service}: {text}"))
        stage.stack.register_connectors(on_progress=lambda service, text: say(f"{service}: {text}"))
        say("")
    registered = time.monotonic()
    # Before the server starts: a new one notes the files as what was applied.
    edited = waiting_changes(stage.settings)
    with display.step("warehouse", "Start the warehouse server and Dagster") as say:
        stage.stack.up(on_progress=lambda service, text: say(f"{service}: {text}"))
        say("")
    if edited:
        apply_files(stage)
    with display.step("snapshot", "Full snapshot through all layers") as say:
        wait_until_caught_up(stage, say, what="the snapshot")
        say(f"{len(stage.client.status())} tables stand at the source's rows")
    report.snapshot_seconds = round(time.monotonic() - registered, 1)


def wait_until_caught_up(stage: Stage, say: Say, *, what: str, timeout: float = SNAPSHOT_TIMEOUT) -> None:
    """Until every stg table has its source's rows and no table has unapplied input. The source must rest."""
    source_rows = stage.source_rows()
    wait_for(
        what,
        lambda: not_caught_up(stage.client.status(), source_rows),
        timeout=timeout,
        say=say,
    )
