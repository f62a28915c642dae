"""The frontier: the exact input cut that a table's version covers."""

from __future__ import annotations

from collections.abc import Mapping

Offsets = dict[str, dict[int, int]]
"""`{topic: {partition: next offset}}`: everything below the next offset is covered."""

Versions = dict[str, int]
"""`{upstream table: changelog version}`, inclusive."""


def merge_offsets(old: Mapping[str, Mapping[int, int]], new: Mapping[str, Mapping[int, int]]) -> Offsets:
    """The later of both cuts, partition by partition."""
    merged: Offsets = {topic: dict(parts) for topic, parts in old.items()}
    for topic, parts in new.items():
        target = merged.setdefault(topic, {})
        for partition, offset in parts.items():
            target[partition] = max(offset, target.get(partition, 0))
    return merged


def earliest_offsets(old: Mapping[str, Mapping[int, int]], new: Mapping[str, Mapping[int, int]]) -> Offsets:
    """The earlier of both cuts. Of a topic that both name, a partition that one lacks is at its beginning."""
    found: Offsets = {topic: dict(parts) for topic, parts in old.items()}
    for topic, parts in new.items():
        had = found.get(topic)
        known = parts if had is None else {p: min(o, had[p]) for p, o in parts.items() if p in had}
        found[topic] = dict(known)
    return found


def decode_offsets(raw: Mapping[str, Mapping[str, int]]) -> Offsets:
    """Offsets from JSON, whose keys are strings."""
    return {topic: {int(p): int(o) for p, o in parts.items()} for topic, parts in raw.items()}


def covers(frontier: Offsets, topic: str, partition: int, offset: int) -> bool:
    """True where the event at `offset` is already in the table."""
    return offset < frontier.get(topic, {}).get(partition, 0)
