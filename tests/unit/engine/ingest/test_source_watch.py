"""A connector that failed is started again, later each time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import pytest

from headrace.engine.ingest import source_watch
from headrace.engine.ingest.source_watch import LONGEST_SECONDS, PAUSE_SECONDS, SourceWatch
from headrace.results import SourceState
from headrace.sources.connect import ConnectorStatus
from headrace.sources.health import Facts, Limits

TICK = 5.0


@dataclass
class Connect:
    """Kafka Connect, and the database beside it, at a time."""

    now: float = 0.0
    state: str = "RUNNING"
    restarted: list[float] = field(default_factory=list)

    def __call__(self, url: str) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *told: object) -> None:
        return

    def status(self, name: str) -> ConnectorStatus:
        return ConnectorStatus(name, self.state)

    def restart_failed(self, name: str) -> None:
        self.restarted.append(self.now)

    def health(self, connector: object, status: ConnectorStatus | None) -> Facts:
        return Facts(answers=True, connector=status)


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Connect:
    connect = Connect()
    monkeypatch.setattr(source_watch, "ConnectClient", connect)
    monkeypatch.setattr(source_watch, "database", lambda dsn: connect)
    return connect


def watched(connect: Connect, *, restarts: bool = True) -> SourceWatch:
    nothing: Any = lambda source: source  # noqa: E731
    clock = lambda: connect.now  # noqa: E731
    return SourceWatch(nothing, nothing, "http://connect", Limits(1, 2), restarts=restarts, clock=clock)


def pass_time(connect: Connect, watch: SourceWatch, seconds: float) -> None:
    for _ in range(int(seconds / TICK)):
        connect.now += TICK
        watch.look(["shop"])


def test_it_is_waited_for_longer_each_time(connect: Connect) -> None:
    watch = watched(connect)
    pass_time(connect, watch, 60)
    assert connect.restarted == []
    connect.state = "FAILED"
    pass_time(connect, watch, 4 * LONGEST_SECONDS)
    pauses = [b - a for a, b in zip(connect.restarted, connect.restarted[1:], strict=False)]
    assert connect.restarted[0] == 60 + TICK + PAUSE_SECONDS
    assert pauses[:3] == [2 * PAUSE_SECONDS, 4 * PAUSE_SECONDS, 8 * PAUSE_SECONDS]
    assert pauses[-1] == LONGEST_SECONDS
    assert "it is started again by itself" in watch.alerts("shop")[0].text


def test_one_that_has_run_since_is_new(connect: Connect) -> None:
    watch = watched(connect)
    connect.state = "FAILED"
    pass_time(connect, watch, 10 * PAUSE_SECONDS)
    count = len(connect.restarted)
    connect.state = "RUNNING"
    pass_time(connect, watch, 20 * PAUSE_SECONDS)
    connect.state = "FAILED"
    begun = connect.now
    pass_time(connect, watch, 2 * PAUSE_SECONDS)
    assert connect.restarted[count:] == [begun + TICK + PAUSE_SECONDS]


def test_one_that_is_stopped_is_left_alone(connect: Connect) -> None:
    watch = watched(connect)
    for state in ("STOPPED", "PAUSED", "UNREGISTERED", "UNASSIGNED"):
        connect.state = state
        pass_time(connect, watch, 100)
    assert connect.restarted == []


def test_an_environment_leaves_it_to_the_production(connect: Connect) -> None:
    watch = watched(connect, restarts=False)
    connect.state = "FAILED"
    pass_time(connect, watch, 4 * LONGEST_SECONDS)
    assert connect.restarted == [] and watch.alerts("shop")


def test_what_was_seen_is_told(connect: Connect) -> None:
    watch = watched(connect)
    assert watch.states() == []
    watch.look(["shop"])
    assert watch.states() == [SourceState(source="shop", answers=True, connector="RUNNING")]
    connect.state = "FAILED"
    watch.look(["shop"])
    assert watch.states() == [SourceState(source="shop", answers=True, connector="FAILED", alarms=1)]
