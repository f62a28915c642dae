"""Debezium's change envelope: reading it, and the net change per key of one micro-batch.

Per key the highest source sequence wins. Nothing here knows a table's types: images stay JSON text until the
one image that counts is decoded.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

ENVELOPE = (
    "op string, before string, after string, ts_ms bigint, _corrupt string, "
    "source struct<lsn: bigint, snapshot: string, ts_ms: bigint>, transaction struct<id: string>"
)
"""Read schema of a Debezium value; `before` and `after` stay JSON text."""

LAST_READ = ("last_in_data_collection", "last")
"""`source.snapshot` of the last row that Debezium's snapshot reads of a table."""

UNAVAILABLE = "__debezium_unavailable_value"
"""What stands for a large value that did not change, where before images are not complete."""

_IMAGES = {"c", "r", "u", "d"}


@dataclass(frozen=True)
class Event:
    """One message of a table's topic."""

    topic: str
    partition: int
    offset: int
    key: str | None
    op: str | None
    before: str | None
    after: str | None
    lsn: int
    source_ms: int
    snapshot: str | None
    value: str | None
    transaction: str | None = None

    @property
    def is_tombstone(self) -> bool:
        return self.value is None

    def fault(self) -> str | None:
        """Why this message cannot be applied, or None."""
        if self.key is None:
            return "the message has no key"
        if self.op is None:
            return "the value is not a Debezium change event (not JSON, or without `op`)"
        if self.op not in _IMAGES:
            return f"unknown operation `{self.op}`"
        if self.op == "d" and self.before is None:
            return "a delete without a before image"
        if self.op != "d" and self.after is None:
            return f"operation `{self.op}` without an after image"
        return None


def sequence(generation: int, lsn: int) -> str:
    """A source position as text that sorts in source order: generation, then LSN."""
    return f"{generation:04X}{lsn:016X}"


@dataclass(frozen=True)
class NetChange:
    """What a micro-batch did to one key: the image before its first event and after its last.

    Args:
        before: None where the source gave no image of the row before.
        after: None where the key ends deleted.
        known_before: True where `before` (or its absence) is certain without looking the table up.
        events: the key's events in source order.
    """

    key: str
    before: str | None
    after: str | None
    sequence: str
    known_before: bool
    events: tuple[Event, ...]


def net(events: Iterable[Event], *, generation: int, high: str, full_identity: bool) -> list[NetChange]:
    """Fold valid events to one change per key.

    Args:
        high: highest sequence the table ever applied. An event at or below it may be a replay, so the
            table must be asked for the row as it is.
        full_identity: the source table has REPLICA IDENTITY FULL: before images are complete.
    """
    by_key: dict[str, list[Event]] = {}
    for event in events:
        by_key.setdefault(event.key or "", []).append(event)
    changes = []
    for key, own in by_key.items():
        own.sort(key=lambda e: (e.lsn, e.offset))
        changes.append(_fold(key, own, generation=generation, high=high, full_identity=full_identity))
    return changes


def _fold(key: str, own: list[Event], *, generation: int, high: str, full_identity: bool) -> NetChange:
    first, last = own[0], own[-1]
    fresh = sequence(generation, first.lsn) > high
    if first.op == "c":
        known = fresh
    elif first.op == "r":
        known = high == ""  # a repeated snapshot reads rows that the table may have
    else:
        known = fresh and full_identity and first.before is not None
    return NetChange(
        key=key,
        before=first.before if known and first.op != "c" else None,
        after=None if last.op == "d" else last.after,
        sequence=sequence(generation, last.lsn),
        known_before=known,
        events=tuple(own),
    )
