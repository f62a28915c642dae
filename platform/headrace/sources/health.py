"""Whether a source and its connector are well, and how much log the source keeps for one that is behind."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from headrace.sources.connect import FAILED, ConnectorStatus


class Level(StrEnum):
    """WARNING: a person should look. ALARM: something is late, or is lost if nobody does."""

    WARNING = "warning"
    ALARM = "alarm"


@dataclass(frozen=True)
class Alert:
    """
    Args:
        fills: it is about log that fills the source's disk, or costs its slot.
    """

    level: Level
    text: str
    fills: bool = False


@dataclass(frozen=True)
class Slot:
    """The connector's replication slot.

    Args:
        behind: bytes of log that the server keeps for it.
        left: bytes after which the server drops it; None: it never does.
        read: whether somebody streams from it.
    """

    behind: int
    left: int | None
    read: bool = True


@dataclass(frozen=True)
class Facts:
    """What is seen of a source.

    Args:
        answers: whether its database does.
        slot: None where it has none: a connector that somebody else runs, elsewhere.
        connector: None where Kafka Connect does not answer.
        noticed: what its database lets nobody see, and the like; their texts begin without its name.
        unread: seconds since somebody was seen to stream from the slot, about; 0 where nobody ever was: the
            connector may still read the tables.
    """

    answers: bool
    slot: Slot | None = None
    connector: ConnectorStatus | None = None
    noticed: tuple[Alert, ...] = ()
    unread: float = 0.0


@dataclass(frozen=True)
class Limits:
    """Bytes of log from which a slot that stands behind is a warning, and an alarm."""

    warning: int
    alarm: int


STALLED_SECONDS = 25.0
"""A stream that is interrupted is there again within seconds."""

LEAST_LEFT = 4
"""An alarm, where what is left to a slot is less than one part in so many of all that it may keep."""


def judge(source: str, facts: Facts, limits: Limits) -> list[Alert]:
    """What is wrong, alarms first."""
    found = _of_connector(source, facts)
    if not facts.answers:
        found.append(Alert(Level.ALARM, f"the database of source `{source}` does not answer"))
    if facts.slot is not None:
        found += _of_slot(source, facts.slot, limits)
    found += [replace(alert, text=f"source `{source}`: {alert.text}") for alert in facts.noticed]
    return sorted(found, key=lambda alert: alert.level is Level.WARNING)


def _of_connector(source: str, facts: Facts) -> list[Alert]:
    connector = facts.connector
    if connector is None:
        return [Alert(Level.ALARM, "Kafka Connect does not answer. Next: `headrace up`")]
    if connector.running and facts.unread >= STALLED_SECONDS:
        text = f"connector `{source}` is RUNNING, but has not streamed for {facts.unread:.0f} s"
        return [Alert(Level.ALARM, f"{text}. Next: mend what its log says (logs/connect.log)")]
    if connector.state == "UNREGISTERED":  # another Connect may run it, and then its slot is elsewhere
        text = f"connector `{source}` is {connector.state}. Next: `headrace up`"
        return [Alert(Level.WARNING, text)] if facts.slot is not None else []
    halted = why_halted(source, connector)
    return [] if halted is None else [Alert(Level.ALARM, halted)]


def why_halted(source: str, connector: ConnectorStatus) -> str | None:
    """Why nothing of a source arrives, and what to do, where its registered connector does not run."""
    if connector.running or connector.state in ("UNASSIGNED", "RESTARTING", "UNREGISTERED"):
        return None
    said = f"connector `{source}` is {connector.state}"
    if connector.state == FAILED:
        return (
            f"{said}: {connector.cause}. Next: mend the cause; it is started again by itself, at once by "
            "`headrace up`"
        )
    return f"{said}: nothing of its source arrives. Next: `headrace up`"


def _of_slot(source: str, slot: Slot, limits: Limits) -> list[Alert]:
    said = (
        f"the database of `{source}` keeps {_size(slot.behind)} of log that its connector has not confirmed"
    )
    if slot.left is not None and slot.left * LEAST_LEFT < slot.left + slot.behind:
        text = f"{said}, and drops its slot after {_size(max(0, slot.left))} more: tables would need a resync"
        text += ". Next: let the connector run, or raise max_slot_wal_keep_size"
        return [Alert(Level.ALARM, text, fills=True)]
    for bound, level in ((limits.alarm, Level.ALARM), (limits.warning, Level.WARNING)):
        if slot.behind >= bound:
            text = f"{said}. Next: let the connector run before the disk is full"
            return [Alert(level, text, fills=level is Level.ALARM)]
    return []


def _size(count: int) -> str:
    for unit, size in (("GiB", 2**30), ("MiB", 2**20)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"
