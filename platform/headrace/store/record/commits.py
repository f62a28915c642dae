"""What every Delta commit of headrace says about itself, in its `userMetadata`.

Data and progress are one commit: a kill at any point leaves the whole refresh or nothing, and the log
itself tells where to go on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Literal

from headrace.storage.location import Location, names
from headrace.store.record.decision import Decision
from headrace.store.record.frontier import Offsets, Versions, decode_offsets
from headrace.store.record.rewinds import Rewinds

_COMMIT = re.compile(r"\d{20}\.json")

MOST_RECORDS = 1_000
"""Commits that are worth reading one by one."""

HISTORY = 200
"""Newest commits of a table whose decisions are kept in mind."""

CommitMode = Literal["create", "stream", "backfill", "rewind", "compaction", "maintenance"]
"""`maintenance`: the commit changed files and no rows, and repeats the newest record there was."""


@dataclass(frozen=True)
class Commit:
    """One commit's record.

    Args:
        table: `layer.table`.
        mode: who wrote it.
        version: changelog version the commit makes (or, for a snapshot, stands at).
        offsets: frontier of a stg table.
        upstreams: frontier of a derived table.
        template: hash of the table's definition.
        run_id: one run of the writing process.
        generation: counts resyncs; sequences of a later one win.
        batch: number of the flow's step in its run, -1 elsewhere.
        origin: what `offsets` and `high` count in, stg only; see `sources.origin.Origin`.
        high: highest source sequence ever applied (stg only).
        truncated: that of the source's last TRUNCATE, which what is older comes too late for; "" for none.
        snapshot: log position of the source at which the connector's first snapshot has read the rows (stg
            only); 0 where it has read none, -1 where that was given up.
        source_ms: commit time at the source of the newest event applied, milliseconds since 1970.
        watermark_ms: time at the source up to which everything is in the table, milliseconds since 1970, as
            it was known before this commit, which can only have added to it; 0 while unknown.
        accounting: events in and what became of them (stg only).
        rows: rows of the table at this version.
        through: snapshot only: changelog version that its newest partition includes.
        partitions: labels in which it changes or writes rows; None where that is not known, or all of them.
        kinds: changelog only: number of change rows by kind; None where they were not counted.
        decision: how a derived table's refresh was chosen and what it took; see `Decision`.
        loaded: changelog version of rows that came past the topic, which goes on after them: those of a bulk
            snapshot, or of a table that began again; 0 where there were none.
        loaded_at: where the topic goes on after them; empty for its beginning.
        reads: derived tables: change rows by upstream that the commit carries on, net where the driver has
            them.
        miscounted: rows that the table held beyond what the commit before says.
        totals: what became of rows and events since a version; see `store.record.account`.
        rewinds: changelog only: every rewind of the table so far; see `store.record.rewinds`.
        immutable_before: partitions with a lesser label stay as they are; "" for none.
        complete_through: the batch alone writes the table, and has written the partitions up to this label:
            it holds no others. "" for a table with all of its partitions.
    """

    table: str
    mode: CommitMode
    version: int
    offsets: Offsets = field(default_factory=dict)
    upstreams: Versions = field(default_factory=dict)
    template: str = ""
    run_id: str = ""
    generation: int = 0
    origin: dict[str, Any] = field(default_factory=dict)
    batch: int = -1
    high: str = ""
    truncated: str = ""
    snapshot: int = 0
    source_ms: int = 0
    watermark_ms: int = 0
    accounting: dict[str, Any] = field(default_factory=dict)
    rows: int = 0
    through: int = -1
    kinds: dict[str, int] | None = None
    partitions: tuple[str | None, ...] | None = None
    decision: dict[str, Any] = field(default_factory=dict)
    loaded: int = 0
    loaded_at: Offsets = field(default_factory=dict)
    reads: dict[str, int] = field(default_factory=dict)
    miscounted: int = 0
    totals: dict[str, int] = field(default_factory=dict)
    rewinds: Rewinds = ()
    immutable_before: str = ""
    complete_through: str = ""

    def next(self, mode: CommitMode, run_id: str, **what: Any) -> Commit:
        """The record of the version after this one.

        What the table is stays: frontier, template, bounds, generation, origin. What one commit did begins
        empty.

        Args:
            what: other fields that differ.
        """
        alone = {"batch": -1, "accounting": {}, "decision": {}, "kinds": None, "partitions": None}
        alone |= {"reads": {}, "miscounted": 0, "totals": {}}
        known = {"mode": mode, "version": self.version + 1, "run_id": run_id}
        return replace(self, **{**alone, **known, **what})

    def encode(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def decode(cls, text: str) -> Commit:
        raw: dict[str, Any] = json.loads(text)
        for name in ("offsets", "loaded_at"):
            raw[name] = decode_offsets(raw.get(name, {}))
        if raw.get("partitions") is not None:
            raw["partitions"] = tuple(raw["partitions"])
        raw["rewinds"] = tuple((at, to) for at, to in raw.get("rewinds", ()))
        return cls(**{k: v for k, v in raw.items() if k in cls.__dataclass_fields__})

    @property
    def frontier(self) -> dict[str, Any]:
        """The recorded cut as users see it."""
        return dict(self.offsets) if self.offsets else dict(self.upstreams)


def log_versions(table: Location) -> list[int]:
    """Versions that the Delta log still holds as JSON, ascending. Empty where there is no table."""
    return sorted(int(n[:-5]) for n in names(table / "_delta_log") if _COMMIT.fullmatch(n))


def read_commit(table: Location, version: int) -> Commit | None:
    """The record of one Delta version, or None where headrace did not write it."""
    return read_entry(table, version)[1]


def read_entry(table: Location, version: int) -> tuple[int, Commit | None]:
    """When one Delta version was committed, milliseconds since 1970, and what `read_commit` gives."""
    path = table / "_delta_log" / f"{version:020d}.json"
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if '"commitInfo"' not in line:
                continue
            info = json.loads(line).get("commitInfo", {})
            text = info.get("userMetadata")
            return info.get("timestamp", 0), Commit.decode(text) if text and text.startswith("{") else None
    return 0, None


def history(table: Location) -> Iterator[tuple[int, Commit]]:
    """(Delta version, record) of every headrace commit, newest first, read as it is asked for."""
    for version in reversed(log_versions(table)):
        try:
            commit = read_commit(table, version)
        except FileNotFoundError:  # cleaned up since it was listed
            continue
        if commit is not None:
            yield version, commit


def newest(table: Location, count: int) -> list[Commit]:
    """The newest `count` records, newest first."""
    return [commit for _, commit in islice(history(table), count)]


def told(table: Location, count: int) -> list[tuple[datetime, Commit]]:
    """When the newest `count` versions of a changelog were committed, and their records, newest first."""
    found: list[tuple[datetime, Commit]] = []
    for version in reversed(log_versions(table)):
        if len(found) == count:
            break
        try:
            at, commit = read_entry(table, version)
        except FileNotFoundError:  # cleaned up since it was listed
            continue
        if commit is not None and commit.mode != "maintenance":
            found.append((datetime.fromtimestamp(at / 1000, UTC), commit))
    return found


def decisions(commits: list[Commit]) -> list[Decision]:
    """The decisions among these commits, newest first there, oldest first here."""
    streamed = (c.decision for c in reversed(commits) if c.mode == "stream" and c.decision)
    return [d for d in map(Decision.from_dict, streamed) if d is not None]


def records(table: Location, after: int, through: int) -> list[Commit | None]:
    """The record of each of the changelog's own versions in `(after, through]`, oldest first.

    None stands for those that the log does not tell any more, and for a range of more than `MOST_RECORDS`.
    """
    found: dict[int, Commit] = {}
    if through - after > MOST_RECORDS:
        return [None]
    for _, commit in islice(history(table), MOST_RECORDS):
        if commit.mode == "maintenance":
            continue
        if commit.version <= after:
            break
        found[commit.version] = commit
    return [found.get(version) for version in range(after + 1, through + 1)]


def of_version(table: Location, version: int) -> Commit | None:
    """The record of one version of a changelog, or None where its log no longer holds it."""
    for _, commit in history(table):
        if commit.version <= version and commit.mode != "maintenance":
            return commit if commit.version == version else None
    return None


def latest(table: Location) -> tuple[int, Commit] | None:
    """The newest record of a table's data and its Delta version.

    A maintenance commit's own copy counts only where no other is left: it may be older than what was
    appended while the maintenance ran.
    """
    carried: tuple[int, Commit] | None = None
    for version, commit in history(table):
        if commit.mode != "maintenance":
            return version, commit
        if carried is None or commit.version > carried[1].version:
            carried = version, commit
    return carried
