"""Which version of a stg table its topic is applied to in the proof: the oldest that it still follows."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from headrace.engine.table.table import StgTable
from headrace.errors import NeedsResync
from headrace.sources.stream.topics import Bounds, lost
from headrace.store.record.commits import MOST_RECORDS, history
from headrace.store.record.frontier import Offsets


@dataclass(frozen=True)
class TopicBase:
    """
    Args:
        version: whose rows stand before the events; 0 for none.
        offsets: where the events after them begin.
        first: whether they are all that ever came past the topic, so that nothing is taken for granted.
    """

    version: int
    offsets: Offsets
    first: bool


def topic_base(table: StgTable, bounds: Bounds) -> TopicBase:
    """
    Args:
        bounds: what the topic holds.
    Raises:
        NeedsResync: none of its versions that can still be read is followed by what the topic holds.
    """
    store, topic = table.store, table.topic
    head = store.commit
    begin = head.loaded_at.get(topic, {})
    low = {p: first for p, (first, _) in bounds[topic].items()}
    there = (
        head.loaded >= _readable(table) if head.loaded_at else not (head.loaded and store.changelog.removed)
    )
    if there and all(begin.get(p, 0) >= first for p, first in low.items()):
        return TopicBase(head.loaded, {topic: {p: begin.get(p, 0) for p in low}}, first=True)
    readable = max(_readable(table), head.loaded)
    found: TopicBase | None = None
    for _, commit in islice(history(store.changelog.path), MOST_RECORDS):
        at = commit.offsets.get(topic, {})
        same = (commit.generation, commit.template) == (head.generation, head.template)
        if commit.version < readable or not same or any(at.get(p, 0) < first for p, first in low.items()):
            break
        found = TopicBase(commit.version, {topic: {p: at.get(p, 0) for p in low}}, first=False)
    if found is None:
        why = lost(head.offsets, bounds).get(topic, f"topic `{topic}` follows none of its versions any more")
        raise NeedsResync(f"`{table.name}`: {why}. The comparison with the source still holds")
    return found


def _readable(table: StgTable) -> int:
    """The oldest of its versions that retention has left whole. Reads the snapshot's log."""
    return max(table.store.snapshot.oldest_readable(), table.store.changelog.removed)
