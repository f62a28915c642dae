"""The warehouse server's process: `python -m headrace.server --project DIR`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from headrace.gateway import server

if TYPE_CHECKING:
    from headrace.results import Explanation, PlannedProject
    from headrace.services.status import ServiceStatus
    from headrace.settings import Settings


class ProjectOverview:
    """What commands ask of a whole project. What only this needs is imported by the first question."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.digest = settings.digest

    def services(self) -> list[ServiceStatus]:
        from headrace.services.stack import Stack

        return Stack(self._settings).status()

    def plan(self) -> PlannedProject:
        from headrace.planning import plan_project

        return plan_project(self._settings)

    def explain(self, table: str, *, history: bool) -> Explanation:
        from headrace.planning import explain_table

        return explain_table(self._settings, table, history=history)


if __name__ == "__main__":
    sys.exit(server.main(overview=ProjectOverview))
