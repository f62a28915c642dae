"""What the running server tells of a project; without one, or one with other settings, found out here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.gateway.client import GatewayClient
    from headrace.results import Explanation, PlannedProject
    from headrace.services.status import ServiceStatus
    from headrace.settings import Settings

TIMEOUT = 15.0
"""Seconds that the server has for an answer."""


def services(client: GatewayClient, settings: Settings) -> list[ServiceStatus]:
    """Every service's state."""
    from headrace.services.status import ServiceStatus

    try:
        return [ServiceStatus.model_validate(found) for found in client.services()]
    except HeadraceError:
        from headrace.services.stack import Stack

        return Stack(settings).status()


def planned_project(settings: Settings) -> PlannedProject:
    """What the files say. Raises SpecError with file and line for what is wrong."""
    from headrace.gateway.client import GatewayClient

    try:
        with GatewayClient(settings, timeout=TIMEOUT) as client:
            return client.plan()
    except HeadraceError:  # a mistake in a file is told best by who finds it
        from headrace.planning import plan_project

        return plan_project(settings)


def planned_table(settings: Settings, table: str, *, history: bool) -> Explanation:
    """What one table's file says. Raises SpecError with file and line for what is wrong."""
    from headrace.gateway.client import GatewayClient

    try:
        with GatewayClient(settings, timeout=TIMEOUT) as client:
            return client.planned(table, history=history)
    except HeadraceError:
        from headrace.planning import explain_table

        return explain_table(settings, table, history=history)
