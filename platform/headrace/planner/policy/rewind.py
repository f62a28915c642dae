"""Planning a rewind: which tables go back, each to which of its versions, and what speaks against it.

A table's dependants reached its older rows at versions of their own. They go back to the newest version
whose frontier says nothing that the older rows did not lead to, so afterwards all of them stand at one cut.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import NoReturn

from headrace.errors import TerminalError
from headrace.store.record.rewinds import Rewinds, descends

Bounds = Mapping[str, Mapping[int, tuple[int, int]]]
"""`{topic: {partition: (first offset there is, next offset)}}`."""


class RewindRefused(TerminalError):
    """A rewind that cannot be done exactly, so nothing was done. Its code stands first in the message."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"[{code}] {message}")
        self.code = code


@dataclass(frozen=True)
class Past:
    """A version of a table that is on record.

    Args:
        at: when it was committed, with a time zone.
        template: hash of the definition that made its rows.
        upstreams: frontier of a derived table.
        offsets: frontier of a stg table.
    """

    version: int
    at: datetime
    template: str
    upstreams: Mapping[str, int]
    offsets: Mapping[str, Mapping[int, int]]


@dataclass(frozen=True)
class Standing:
    """What is known of one table.

    Args:
        name: `layer.table`.
        head: its present version.
        template: hash of its present definition.
        made_by: hash of the definition that its present rows are by.
        past: versions on record, ascending.
        removed: retention has removed the changes up to this version.
        readable: the oldest version whose rows can be read.
        upstreams: the materialized tables that it reads.
        topic: what Kafka holds of a stg table's topic; empty for a derived one.
        loaded: version of rows that came past the topic; 0 where there were none.
    """

    name: str
    head: int
    template: str
    made_by: str
    past: tuple[Past, ...]
    rewinds: Rewinds = ()
    removed: int = 0
    readable: int = 1
    upstreams: tuple[str, ...] = ()
    topic: Bounds | None = None
    loaded: int = 0

    @property
    def oldest(self) -> int:
        """The oldest version whose rows are there, as far as changes and snapshots tell."""
        return max(1, self.removed, self.readable, self.loaded)

    def stands_at(self, version: int) -> bool:
        """Whether its rows are those of `version` already, by a rewind and nothing after it."""
        return version == self.head or (self.head, version) in self.rewinds


@dataclass(frozen=True)
class Step:
    """One table of a rewind.

    Args:
        to: the version whose rows and frontier come back.
        done: it stands there already: a rewind that was cut short goes on with the others.
    """

    table: str
    current: int
    to: Past
    done: bool


def plan(
    tables: Mapping[str, Standing], table: str, to: int | datetime, *, cascade: bool, now: datetime
) -> list[Step]:
    """The steps of a rewind, upstreams first; dependants that need not go back are left out.

    Args:
        tables: all tables, upstreams first.
        to: a version of `table`, or the time whose newest version is meant.
        cascade: whether dependants go back too.
    Raises:
        RewindRefused: it cannot be done, or only with `cascade`.
    """
    first = tables[table]
    target = _at_time(first, to, now) if isinstance(to, datetime) else _of_version(first, to)
    steps = [_step(tables, first, target)]
    targets = {table: first.head if steps[0].done else target.version}
    for other in tables.values():
        above = [name for name in other.upstreams if name in targets]
        present = next((p for p in other.past if p.version == other.head), None)
        if not above or not other.head or (present is not None and _fits(tables, targets, above, present)):
            continue
        step = _step(tables, other, _aligned(tables, targets, above, other))
        steps.append(step)
        targets[other.name] = step.to.version
    if steps[1:] and not cascade:
        named = ", ".join(f"`{step.table}`" for step in steps[1:])
        wanted = f"--to-version {to}" if isinstance(to, int) else f"--to-time '{to.isoformat(' ')}'"
        _refuse(
            "INVALID_CASCADE_CONFIGURATION",
            f"{named} came from later rows of `{table}` and must go back too",
            f"`headrace rewind {table} {wanted} --cascade`",
        )
    return steps


def _fits(
    tables: Mapping[str, Standing], targets: Mapping[str, int], above: Sequence[str], past: Past
) -> bool:
    return all(descends(tables[n].rewinds, past.upstreams.get(n, 0), targets[n]) for n in above)


def _aligned(
    tables: Mapping[str, Standing], targets: Mapping[str, int], above: Sequence[str], table: Standing
) -> Past:
    """The version of a dependant that has come furthest without going beyond its upstreams' targets."""
    found = [p for p in table.past if p.version >= 1 and _fits(tables, targets, above, p)]
    if not found:
        wanted = ", ".join(f"`{name}` at version {targets[name]} or before" for name in above)
        since = f" on record, which begins at {table.past[0].version}" if table.past else ""
        _refuse(
            "NO_ALIGNED_VERSION",
            f"`{table.name}` has no version{since} that read {wanted}: no consistent point is left for it",
            "a later version",
        )
    return max(found, key=lambda p: (sum(p.upstreams.get(n, 0) for n in above), p.version))


def _step(tables: Mapping[str, Standing], table: Standing, target: Past) -> Step:
    _check_definition(table)
    step = Step(table.name, table.head, target, table.stands_at(target.version))
    if step.done:
        return step
    if target.template != table.template:
        _refuse(
            "DEFINITION_CHANGED",
            f"the rows of `{table.name}` at version {target.version} are by another definition than the "
            "present one, which could not go on from them",
            f'`headrace sql "ALTER MATERIALIZED TABLE {table.name} ROLLBACK"` computes the table by the '
            "definition before, or a later version",
        )
    _check_retention(table, target)
    _check_offsets(table, target)
    for name in table.upstreams:
        _check_upstream(table, target, tables[name])
    return step


def _check_definition(table: Standing) -> None:
    if table.head and table.made_by != table.template:
        _refuse(
            "DEFINITION_CHANGED",
            f"the rows of `{table.name}` are not by its present definition yet",
            "`headrace apply`",
        )


def _check_retention(table: Standing, target: Past) -> None:
    lost = [to for at, to in table.rewinds if at > target.version and to < table.removed]
    if target.version >= table.oldest and not lost:
        return
    why = (
        "its first rows came past the topic, which does not hold them"
        if target.version < table.loaded
        else "retention has removed changes or snapshots that it needs"
    )
    _refuse(
        "BEYOND_RETENTION",
        f"`{table.name}` cannot go back to version {target.version}: {why}. The oldest version that it can "
        f"go back to is {table.oldest}",
        f"`headrace rewind {table.name} --to-version {min(table.oldest, table.head)} --dry-run`",
    )


def _check_offsets(table: Standing, target: Past) -> None:
    for topic, partitions in (table.topic or {}).items():
        for partition, (first, end) in partitions.items():
            offset = target.offsets.get(topic, {}).get(partition, 0)
            if not first <= offset <= end:
                _refuse(
                    "BEYOND_RETENTION",
                    f"`{table.name}` at version {target.version} goes on at offset {offset} of partition "
                    f"{partition} of topic `{topic}`, and Kafka holds {first} to {end}: it could not read on",
                    "a later version",
                )


def _check_upstream(table: Standing, target: Past, upstream: Standing) -> None:
    seen = target.upstreams.get(upstream.name, 0)
    if seen >= upstream.removed and (seen >= upstream.readable or not upstream.head):
        return
    _refuse(
        "BEYOND_RETENTION",
        f"`{table.name}` at version {target.version} goes on from version {seen} of `{upstream.name}`, whose "
        f"changes and snapshots are kept from version {max(upstream.removed, upstream.readable)} on",
        "a later version",
    )


def _of_version(table: Standing, version: int) -> Past:
    if (found := next((p for p in table.past if p.version == version), None)) is not None:
        return found
    if 0 < version <= table.head:
        near = [str(p.version) for p in _around(table, version)]
        _refuse(
            "BEYOND_RETENTION",
            f"version {version} of `{table.name}` is not on record any more. The nearest that are: "
            f"{' and '.join(near) or 'none'}",
            f"`headrace rewind {table.name} --to-version {near[-1] if near else table.head} --dry-run`",
        )
    why = (
        "the table was empty at version 0, before its first rows"
        if not version
        else "there is no such version"
    )
    return _refuse(
        "UNKNOWN_VERSION",
        f"`{table.name}` cannot go back to version {version}: {why}. It is at version {table.head}",
        f"`headrace changes {table.name}` shows its versions",
    )


def _around(table: Standing, version: int) -> list[Past]:
    place = bisect_right(table.past, version, key=attrgetter("version"))
    return list(table.past[max(0, place - 1) : place + 1])


def _at_time(table: Standing, at: datetime, now: datetime) -> Past:
    """The newest version that was there at a time."""
    if at > now:
        _refuse(
            "UNKNOWN_VERSION",
            f"{at.isoformat(' ')} is in the future: it is {now.isoformat(' ', 'seconds')}",
            f"`headrace rewind {table.name} --to-time '{now.isoformat(' ', 'seconds')}' --dry-run`",
        )
    there = [p for p in table.past if p.at <= at]
    if there:
        return there[-1]
    oldest = f"the oldest on record is {table.past[0].version}" if table.past else "none is on record"
    when = f", of {table.past[0].at.isoformat(' ', 'milliseconds')}" if table.past else ""
    return _refuse(
        "BEYOND_RETENTION",
        f"no version of `{table.name}` of {at.isoformat(' ')} or before is known: {oldest}{when}",
        f"`headrace rewind {table.name} --to-version {table.past[0].version if table.past else 1} --dry-run`",
    )


def _refuse(code: str, why: str, then: str) -> NoReturn:
    raise RewindRefused(code, f"{why}. Next: {then}")
