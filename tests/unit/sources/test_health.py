"""What is said of a source and its connector, by what is seen of them."""

from __future__ import annotations

import pytest

from headrace.sources.connect import ConnectorStatus
from headrace.sources.health import Facts, Level, Limits, Slot, judge
from headrace.sources.postgres.access.functions import Refused
from headrace.sources.postgres.server import unnoticed

LIMITS = Limits(warning=1 << 30, alarm=8 << 30)
RUNS = ConnectorStatus("shop", "RUNNING")
FAILED = ConnectorStatus("shop", "FAILED", "org.x: no\n\tat y\nCaused by: permission denied\n\tat z")


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        (Facts(True, Slot(0, None), RUNS), []),
        (Facts(True, None, RUNS), []),
        (
            Facts(True, Slot(0, None, read=False), RUNS),
            [],
        ),  # it reads the tables, perhaps
        (
            Facts(True, Slot(0, None, read=False), RUNS, unread=30.4),
            ["alarm: connector `shop` is RUNNING, but has not streamed for 30 s. Next: "],
        ),
        (Facts(True, None, ConnectorStatus("shop", "UNREGISTERED")), []),  # somebody else's, elsewhere
        (
            Facts(True, Slot(0, None), ConnectorStatus("shop", "UNREGISTERED")),
            ["warning: connector `shop` is UNREG"],
        ),
        (
            Facts(True, Slot(0, None), ConnectorStatus("shop", "PAUSED")),
            ["alarm: connector `shop` is PAUSED"],
        ),
        (
            Facts(True, Slot(0, None), FAILED),
            ["alarm: connector `shop` is FAILED: permission denied. Next: "],
        ),
        (Facts(True, Slot(0, None), None), ["alarm: Kafka Connect does not answer"]),
        (Facts(False, None, RUNS), ["alarm: the database of source `shop` does not answer"]),
        (Facts(True, Slot(3 << 30, None), RUNS), ["warning: the database of `shop` keeps 3.0 GiB of log"]),
        (Facts(True, Slot(8 << 30, None), RUNS), ["alarm: the database of `shop` keeps 8.0 GiB of log"]),
        (Facts(True, Slot(5 << 20, 1 << 20), RUNS), ["alarm: the database of `shop` keeps 5.0 MiB of log"]),
        (Facts(True, Slot(5 << 20, 9 << 20), RUNS), []),
        (
            Facts(True, None, RUNS, unnoticed("r", [Refused("pg_control_system", "pg_control_system()")])),
            ["alarm: source `shop`: `r` may not call pg_control_system"],
        ),
        (
            Facts(True, None, RUNS, unnoticed("r", [Refused("pg_export_snapshot", "pg_export_snapshot()")])),
            ["warning: source `shop`: `r` may not call pg_export_snapshot"],
        ),
        (
            Facts(False, Slot(2 << 30, None), FAILED),
            ["alarm: connector", "alarm: the database of source", "warning: the database of `shop` keeps"],
        ),
    ],
)
def test_alerts(facts: Facts, says: list[str]) -> None:
    found = [f"{alert.level}: {alert.text}" for alert in judge("shop", facts, LIMITS)]
    assert len(found) == len(says)
    for text, begins in zip(found, says, strict=True):
        assert text.startswith(begins), text


@pytest.mark.parametrize(
    ("slot", "fills"),
    [(Slot(7 << 20, 1 << 20), True), (Slot(8 << 30, None), True), (Slot(3 << 30, None), False)],
)
def test_a_disk_fills_from_the_alarm_on(slot: Slot, fills: bool) -> None:
    [alert] = judge("shop", Facts(True, slot, RUNS), LIMITS)
    assert alert.fills is fills
    [other] = judge("shop", Facts(True, Slot(0, None), FAILED), LIMITS)
    assert not other.fills


def test_what_is_left_to_a_slot_is_said() -> None:
    [alert] = judge("shop", Facts(True, Slot(7 << 20, 1 << 20), RUNS), LIMITS)
    assert alert.level is Level.ALARM
    assert "drops its slot after 1.0 MiB more" in alert.text and "max_slot_wal_keep_size" in alert.text
