"""Looks after the sources that tables read: what is wrong with them, and with their connectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from headrace.errors import HeadraceError
from headrace.sources.bulk.choice import slot_name
from headrace.sources.connect import ConnectClient, ConnectorStatus
from headrace.sources.health import Alert, Limits, judge, look
from headrace.spec.connector import Connector


@dataclass
class SourceWatch:
    """
    Args:
        dsn: connection string of a source by its name.
        connector: its connector, likewise.
        connect_url: Kafka Connect's REST address.
    """

    dsn: Callable[[str], str]
    connector: Callable[[str], Connector]
    connect_url: str
    limits: Limits
    _found: dict[str, list[Alert]] = field(default_factory=dict)

    def look(self, sources: Iterable[str]) -> None:
        """Note what is wrong with each now."""
        names = sorted(set(sources))
        if not names:
            return
        connectors = self._connectors(names)
        for source in names:
            slot = slot_name(self.connector(source).config)
            self._found[source] = judge(
                source, look(self.dsn(source), slot, connectors.get(source)), self.limits
            )

    def alerts(self, source: str) -> list[Alert]:
        """Alarms first."""
        return self._found.get(source, [])

    def _connectors(self, names: list[str]) -> dict[str, ConnectorStatus]:
        """None of them where Connect does not answer."""
        try:
            with ConnectClient(self.connect_url) as client:
                return {name: client.status(name) for name in names}
        except HeadraceError:
            return {}
