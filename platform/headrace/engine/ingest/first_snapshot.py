"""Debezium's first snapshot of a source, and whether it began anew.

One that is interrupted begins again at a later position of the source's log, and the stream goes on after it.
What was deleted between the two is in no event: the rows that the first attempt has read would stay. A
connector that has lost its offsets does the same at any time later. A snapshot that somebody asked for cannot
be told from that, and is treated alike: its source is read once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.engine.table.table import StgTable
from headrace.errors import SnapshotAnew
from headrace.sources.stream.envelope import INCREMENTAL, Event, sequence
from headrace.spec.model import TableName
from headrace.store.record.commits import Commit

GIVEN_UP = -1
"""In place of a position, of a table that holds rows of an attempt that was given up."""


@dataclass(frozen=True)
class Reads:
    """Log positions at which the rows were read that a micro-batch has; 0 without such rows."""

    first: int = 0
    last: int = 0

    @classmethod
    def of(cls, events: Iterable[Event]) -> Reads:
        """Of a table's valid events."""
        read = [event.lsn for event in events if event.op == "r" and event.snapshot != INCREMENTAL]
        return cls(min(read, default=0), max(read, default=0))


def read_at(table: StgTable, reads: Reads) -> int:
    """The position at which the source's first snapshot has read the rows of the table after a micro-batch.

    Returns:
        0 where none has read any.
    Raises:
        SnapshotAnew: it began anew.
    """
    head = table.store.commit
    if head.snapshot == GIVEN_UP:
        raise began_anew(table)
    if not reads.first:
        return head.snapshot
    if reads.first < reads.last:
        raise began_anew(table, reads.last)
    if _only_read(head):
        if head.snapshot not in (0, reads.last):
            raise began_anew(table, reads.last)
        return reads.last
    # Of a topic's partitions one may bring its changes before another one its rows.
    known = head.snapshot and sequence(head.generation, head.snapshot)
    if sequence(head.generation, reads.last) > (known or head.high):
        raise began_anew(table, reads.last)
    return head.snapshot


def _only_read(head: Commit) -> bool:
    """Whether no change was applied so far."""
    return head.high == ("" if not head.snapshot else sequence(head.generation, head.snapshot))


def left_behind(tables: Iterable[StgTable], before: Mapping[TableName, Commit]) -> list[StgTable]:
    """The tables of a source whose rows an earlier attempt has read, where a later one has none of them.

    Args:
        tables: of one source.
        before: their records before the micro-batch; empty where they are taken up by the flow.
    """
    held = [(table, table.store.commit) for table in tables]
    newest = max((own.snapshot for _, own in held), default=0)
    if newest in {commit.snapshot for commit in before.values()}:
        return []
    if not all(map(_only_read, before.values() or [own for _, own in held])):
        return []
    return [table for table, own in held if 0 < own.snapshot < newest]


def from_before(table: StgTable, position: int) -> bool:
    """Whether the table may hold rows from before a snapshot of its source that began anew.

    Args:
        position: at which it has read.
    """
    return bool(table.store.version) and table.store.commit.snapshot not in (position, GIVEN_UP)


def give_up(table: StgTable, run_id: str) -> None:
    """Let the table's record say that it holds rows of an attempt that was given up: nothing else will."""
    with table.store.writing:
        table.store.note(table.store.commit.next("stream", run_id, snapshot=GIVEN_UP))


def given_up(table: StgTable) -> bool:
    """Whether it was."""
    return table.store.commit.snapshot == GIVEN_UP


def began_anew(table: StgTable, position: int = 0) -> SnapshotAnew:
    """Why it must be read from its source.

    Args:
        position: at which the connector has read it again; 0 where it is not known.
    """
    return SnapshotAnew(
        f"`{table.name}`: the connector was interrupted while it read its source for the first time, or has "
        "lost its offsets, and began anew: what was deleted in between is in no event. The source is being "
        f"read again. Next: wait, or `headrace resync {table.name}`",
        position,
    )
