"""Looks after the sources that tables read: what is wrong with them, and with their connectors, which are
started again where they failed."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from headrace.errors import HeadraceError
from headrace.results import SourceState
from headrace.sources.connect import FAILED, ConnectClient, ConnectorStatus
from headrace.sources.database import database
from headrace.sources.health import Alert, Facts, Level, Limits, judge
from headrace.spec.connector import Connector

log = logging.getLogger(__name__)

PAUSE_SECONDS, LONGEST_SECONDS = 15.0, 600.0
"""Before a failed connector is started again: twice as long each time it fails anew, up to the latter."""


@dataclass(frozen=True)
class Restart:
    """When a connector that failed is started again.

    Args:
        pause: seconds that it was waited for.
        due: by the clock.
    """

    pause: float
    due: float


@dataclass
class SourceWatch:
    """
    Args:
        dsn: connection string of a source by its name.
        connector: its connector, likewise.
        connect_url: Kafka Connect's REST address.
        restarts: whether connectors that failed are started again.
        clock: seconds.
    """

    dsn: Callable[[str], str]
    connector: Callable[[str], Connector]
    connect_url: str
    limits: Limits
    restarts: bool = True
    clock: Callable[[], float] = time.monotonic
    _found: dict[str, list[Alert]] = field(default_factory=dict)
    _seen: dict[str, Facts] = field(default_factory=dict)
    _streamed_at: dict[str, float] = field(default_factory=dict)
    _restarts: dict[str, Restart] = field(default_factory=dict)

    def look(self, sources: Iterable[str]) -> None:
        """Note what is wrong with each now, and start connectors again that failed a while ago."""
        names = sorted(set(sources))
        if not names:
            return
        connectors = self._connectors(names)
        for source in names:
            facts = database(self.dsn(source)).health(self.connector(source), connectors.get(source))
            self._seen[source] = facts = self._since(source, facts)
            self._found[source] = judge(source, facts, self.limits)
            if not self.restarts:
                continue
            if source in connectors and self._due(source, failed=connectors[source].state == FAILED):
                self._start_again(source)

    def _due(self, source: str, *, failed: bool) -> bool:
        """Whether a connector is to be started again now."""
        now, known = self.clock(), self._restarts.get(source)
        if not failed:
            if known is not None and now > known.due:  # it has run as long as it was waited for
                del self._restarts[source]
            return False
        if known is None:
            self._restarts[source] = Restart(PAUSE_SECONDS, now + PAUSE_SECONDS)
            return False
        if now < known.due:
            return False
        pause = min(2 * known.pause, LONGEST_SECONDS)
        self._restarts[source] = Restart(pause, now + pause)
        return True

    def _start_again(self, source: str) -> None:
        log.warning("connector %s failed; it is started again", source)
        try:
            with ConnectClient(self.connect_url) as client:
                client.restart_failed(source)
        except HeadraceError as error:
            log.warning("connector %s: %s", source, error)

    def _since(self, source: str, facts: Facts) -> Facts:
        now = self.clock()
        if facts.slot is not None and facts.slot.read:
            self._streamed_at[source] = now
        return replace(facts, unread=now - self._streamed_at.get(source, now))

    def alerts(self, source: str) -> list[Alert]:
        """Alarms first."""
        return self._found.get(source, [])

    def states(self) -> list[SourceState]:
        """What was seen of each source last, by their names."""
        return [self._state(source, facts) for source, facts in sorted(self._seen.items())]

    def _state(self, source: str, facts: Facts) -> SourceState:
        levels = [alert.level for alert in self.alerts(source)]
        return SourceState(
            source=source,
            answers=facts.answers,
            connector=None if facts.connector is None else facts.connector.state,
            slot_lag=None if facts.slot is None else facts.slot.behind,
            alarms=levels.count(Level.ALARM),
            warnings=levels.count(Level.WARNING),
        )

    def filling(self) -> str | None:
        """The first alarm about a source whose disk fills with log that its connector has not read."""
        alerts = itertools.chain.from_iterable(list(self._found.values()))
        return next((alert.text for alert in alerts if alert.fills), None)

    def _connectors(self, names: list[str]) -> dict[str, ConnectorStatus]:
        """None of them where Connect does not answer."""
        try:
            with ConnectClient(self.connect_url) as client:
                return {name: client.status(name) for name in names}
        except HeadraceError:
            return {}
