"""Debezium's change envelope: reading it, and the net change per key of one micro-batch.

Per key the highest source sequence wins. Nothing here knows a table's types: images stay JSON text until the
one image that counts is decoded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from headrace.sources.stream import binlog
from headrace.sources.stream.avro import MAGIC

ENVELOPE = (
    "op string, before string, after string, ts_ms bigint, _corrupt string, "
    "transaction struct<id: string, total_order: bigint, data_collection_order: bigint>, "
    "source struct<lsn: bigint, snapshot: string, ts_ms: bigint, txId: bigint, file: string, pos: bigint>"
)
"""Read schema of a Debezium value; `before` and `after` stay JSON text."""

LSN = (
    "coalesce(_e.source.lsn, "
    + binlog.sql("_e.source.file", "_e.source.pos", "_e.transaction.total_order")
    + ", 0L)"
)
"""Spark SQL expression of an event's place in its source's log, over an envelope `_e`; 0 without one."""

TRANSACTION = (
    "if(contains(_e.transaction.id, '-'), _e.transaction.id, substring_index(_e.transaction.id, ':', 1))"
)
"""Likewise of the id of its transaction. PostgreSQL's is `xid:LSN`, with the LSN of each single event; GTIDs
are one for all, and have a `-`."""


def transaction_id(announced: str) -> str:
    """`TRANSACTION` of an id as Debezium announces it."""
    return announced if "-" in announced else announced.partition(":")[0]


LAST_READ = ("last_in_data_collection", "last")
"""`source.snapshot` of the last row that Debezium's snapshot reads of a table."""

INCREMENTAL = "incremental"
"""`source.snapshot` of rows that are read while the changes go on, when somebody asks for it."""

TRUNCATE = "t"
"""The operation that deletes every row that was there before it. Its message has no key."""


class Event(NamedTuple):
    """One message of a table's topic. A tuple, which costs an eighth of a frozen dataclass to make.

    Args:
        key: None also where its bytes are no UTF-8.
        value: as Kafka has it.
        transaction: the id by which Debezium announces it, where it does.
        xid: PostgreSQL's id of it, 32 bits.
        raw_key: the key as Kafka has it.
        transaction_order: among the events of its transaction in its topic, from 1 on.
    """

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
    value: bytes | None
    transaction: str | None = None
    xid: int | None = None
    raw_key: bytes | None = None
    transaction_order: int | None = None

    @property
    def is_tombstone(self) -> bool:
        return self.value is None

    @property
    def truncates(self) -> bool:
        return self.op == TRUNCATE

    def fault(self) -> str | None:
        """Why this message cannot be applied, or None."""
        for rule in FAULTS:
            if rule.holds(self):
                return rule.reason.replace(OPERATION, f"`{self.op}`")
        return None


OPERATION = "<operation>"
"""What a reason says in place of the message's operation."""


@dataclass(frozen=True)
class FaultRule:
    """Why a message cannot be applied, asked of one event and of Spark's rows.

    Args:
        sql: over the columns of `Event`; NULL or true or false.
    """

    reason: str
    holds: Callable[[Event], bool]
    sql: str


UNREAD = (
    "the value is Avro that cannot be read: `schema_registry_url` is not set, the registry does not know the "
    "schema, or the bytes are not of it"
)

FAULTS = (
    FaultRule(
        UNREAD,
        lambda e: e.value is not None and e.value.startswith(MAGIC),
        "substring(value, 1, 1) = X'00'",
    ),
    FaultRule(
        "the message has no key, or one that is no UTF-8",
        lambda e: e.key is None and not e.truncates,
        f"key IS NULL AND op IS DISTINCT FROM '{TRUNCATE}'",
    ),
    FaultRule(
        "the value is not a Debezium change event (not JSON, or without `op`)",
        lambda e: e.op is None,
        "op IS NULL",
    ),
    FaultRule(
        f"unknown operation {OPERATION}",
        lambda e: e.op not in ("c", "r", "u", "d", TRUNCATE),
        f"op NOT IN ('c', 'r', 'u', 'd', '{TRUNCATE}')",
    ),
    FaultRule(
        "the message has no log position (`source.lsn`)",
        lambda e: e.op != "r" and e.lsn <= 0,
        "op <> 'r' AND lsn <= 0",
    ),
    FaultRule(
        "a delete without a before image",
        lambda e: e.op == "d" and e.before is None,
        "op = 'd' AND before IS NULL",
    ),
    FaultRule(
        f"operation {OPERATION} without an after image",
        lambda e: e.op in ("c", "r", "u") and e.after is None,
        "op IN ('c', 'r', 'u') AND after IS NULL",
    ),
)
"""In the order in which they are asked; a tombstone has none."""


def fault_sql() -> str:
    """A Spark SQL expression for `Event.fault`, over columns as its attributes."""
    asked = []
    for rule in FAULTS:
        before, _, after = rule.reason.partition(OPERATION)
        says = f"concat('{before}`', op, '`{after}')" if OPERATION in rule.reason else f"'{rule.reason}'"
        asked.append(f"WHEN {rule.sql} THEN {says}")
    return f"CASE WHEN value IS NULL THEN NULL {' '.join(asked)} END"


def sequence(generation: int, lsn: int) -> str:
    """A source position as text that sorts in source order: generation, then LSN."""
    return f"{generation:04X}{lsn:016X}"


class Keys(Protocol):
    def __contains__(self, key: str, /) -> bool: ...


class NetChange(NamedTuple):
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


def net(
    events: Iterable[Event],
    *,
    generation: int,
    high: str,
    full_identity: bool,
    doubtful: Keys = frozenset(),
) -> list[NetChange]:
    """Fold valid events to one change per key.

    Args:
        high: highest sequence the table ever applied. An event at or below it may be a replay, so the
            table must be asked for the row as it is.
        full_identity: the source table has REPLICA IDENTITY FULL: before images are complete.
        doubtful: keys of which an event was left out: the table may not hold what was before a later one.
    """
    by_key: dict[str, list[Event]] = {}
    for event in events:
        by_key.setdefault(event.key or "", []).append(event)
    changes = []
    for key, own in by_key.items():
        if len(own) > 1:
            own.sort(key=lambda e: (e.lsn, e.offset))
        sure = key not in doubtful
        changes.append(
            _fold(key, own, generation=generation, high=high, full_identity=full_identity, sure=sure)
        )
    return changes


def _whole(event: Event) -> bool:
    """Whether the row before is more than its key: the table may have another REPLICA IDENTITY by now."""
    return event.op != "d" or has_row_before(event)  # an update has no row before then


def has_row_before(event: Event) -> bool:
    """Whether the event shows the row before it, and not only its key: all of the row after was sent then."""
    try:
        key, before = json.loads(event.key or ""), json.loads(event.before or "")
        others = before.keys() - key.keys()
    except (ValueError, AttributeError):
        return False
    return not others or any(before[name] is not None for name in others)


def _fold(
    key: str, own: list[Event], *, generation: int, high: str, full_identity: bool, sure: bool
) -> NetChange:
    first, last = own[0], own[-1]
    fresh = sure and sequence(generation, first.lsn) > high
    if first.op == "c":
        known = fresh
    elif first.op == "r":
        known = sure and high == ""  # a repeated snapshot reads rows that the table may have
    else:
        known = fresh and full_identity and first.before is not None and _whole(first)
    return NetChange(
        key=key,
        before=first.before if known and first.op != "c" else None,
        after=None if last.op == "d" else last.after,
        sequence=sequence(generation, last.lsn),
        known_before=known,
        events=tuple(own),
    )
