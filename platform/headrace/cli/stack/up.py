"""up: the stack starts."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from headrace.cli._shared.options import Project, load_settings
from headrace.cli._shared.output import note
from headrace.cli._shared.progress import show_service
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.settings import Settings

START_SECONDS = 60.0
"""For the tables, of a server that answers: they need their sources."""


def up(project: Project = None) -> None:
    """Start the stack, or what of it does not run."""
    from headrace.services.stack import Stack

    settings = load_settings(project)
    stack = Stack(settings)
    # The warehouse reads the topics that the registration of a connector creates.
    stack.up(only=["connect"], on_progress=show_service)
    problem: HeadraceError | None = None
    try:
        stack.register_connectors(on_progress=show_service)
    except HeadraceError as error:
        problem = error
    stack.up(on_progress=show_service)
    if problem is not None:
        raise problem  # the rest is up: what is stored can be read while the source is being mended
    if (serving := _serving_instead(settings)) is not None:
        note(f"this server stands by: {serving} serves the warehouse until it ends")
    elif (waits_for := _tables_started(settings)) is not None:
        note(f"the tables have not started yet: {waits_for}; `headrace status` shows when they have")
    note(f"up: `headrace status` shows the tables, Dagster is at {settings.dagster_url}")
    if settings.flight_sql:
        note(f"Flight SQL is at {settings.flight_sql_url}, its token in {settings.gateway_read_token}")
    if settings.spark_connect:
        address = f"sc://localhost:{settings.spark_connect_port}/;token=…"
        note(f"Spark Connect is at {address}, its token in {settings.spark_connect_token}")


def _serving_instead(settings: Settings) -> str | None:
    """Whom a standby stands by for."""
    from headrace.gateway.client import GatewayClient

    if not settings.standby:
        return None
    with GatewayClient(settings) as client:
        return client.serving_instead()


def _tables_started(settings: Settings) -> str | None:
    """Wait until the server has its tables, so that what is typed next finds them.

    Returns:
        What they wait for still; None where they have started.
    """
    from headrace.gateway.client import GatewayClient

    until, last = time.monotonic() + START_SECONDS, ""
    with GatewayClient(settings) as client:
        while time.monotonic() < until:
            try:
                waiting = [s for s in client.status() if s.state == "INITIALIZING"]
            except HeadraceError as error:
                return str(error)
            if not waiting:
                return None
            last = waiting[0].last_error or ""
            time.sleep(0.2)
    return last
