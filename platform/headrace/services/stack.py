"""The native stack of one project: every service as a supervised process on loopback."""

from __future__ import annotations

from collections.abc import Callable, Collection

from headrace.services.status import ServiceName, ServiceStatus
from headrace.settings import Settings

OnProgress = Callable[[ServiceName, str], None]


class Stack:
    """Starts, stops and inspects the services of one project.

    Args:
        settings: the project's settings; two projects with different ports and data run side by side.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def up(
        self, *, only: Collection[ServiceName] | None = None, on_progress: OnProgress | None = None
    ) -> list[ServiceStatus]:
        """Start what does not run, wait until all of it is healthy. Running services are left alone.

        Args:
            only: these services and what they need. Default: all.
            on_progress: called with (service, what happens), from several threads.

        Raises TerminalError with the next command where a port is busy, Java is missing or a service fails.
        """
        raise NotImplementedError

    def down(self, *, on_progress: OnProgress | None = None) -> None:
        """Stop everything and wait until no process of this stack is left. Data stays."""
        raise NotImplementedError

    def status(self) -> list[ServiceStatus]:
        """Every service's state, with its health check where its process runs."""
        raise NotImplementedError

    def register_connectors(self, *, on_progress: OnProgress | None = None) -> list[str]:
        """Register `deploy/connectors/*.json` and create their topics; the source's tables must exist.
        Returns the connectors' names. Registering again changes nothing."""
        raise NotImplementedError

    def restart(self, service: ServiceName) -> None:
        """Stop one service, start it and wait until it is healthy."""
        raise NotImplementedError
