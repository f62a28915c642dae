"""Which versions of a table are on record, and since when: where a rewind can go back to.

The Delta log tells of each commit, but only for an hour. Maintenance therefore notes the newest version
every minute in `versions-….jsonl` beside the changelog, a file an hour; retention forgets those whose changes
it removes.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from headrace.storage.location import Location, append_text, names, replace_text
from headrace.storage.permit import PERMIT
from headrace.store.record.commits import Commit, log_versions, read_entry

FILE = "versions.jsonl"
_SEGMENT = re.compile(r"versions(-\d{8}T\d{2})?\.jsonl")

NOTE_SECONDS = 60.0
"""Time between two notes of a table that changes."""


@dataclass(frozen=True)
class Recorded:
    """A version's record, and when it was committed."""

    at: datetime
    commit: Commit


def recorded(root: Location) -> list[Recorded]:
    """All versions on record of the table at `root`, ascending. Version 0, the empty table, is none."""
    found = {entry.commit.version: entry for entry in _noted(root)}
    changelog = root / "changelog"
    for version in log_versions(changelog):
        try:
            milliseconds, commit = read_entry(changelog, version)
        except FileNotFoundError:  # cleaned up since it was listed
            continue
        if commit is not None and commit.mode not in ("create", "maintenance"):
            at = datetime.fromtimestamp(milliseconds / 1000, UTC)
            found[commit.version] = Recorded(at, commit)
    return [found[version] for version in sorted(found)]


def note(root: Location, commit: Commit) -> bool:
    """Note the newest version, where that is due. True where it was noted."""
    last = _last(root)
    if commit.version == 0 or (last is not None and last.commit.version >= commit.version):
        return False
    at = _committed(root / "changelog", commit)
    if last is not None and (at - last.at).total_seconds() < NOTE_SECONDS:
        return False
    PERMIT.check()
    append_text(root / _segment(at), _line(Recorded(at, commit)))
    return True


def forget(root: Location, removed: int) -> None:
    """Drop the notes of versions before `removed`."""
    for name in _segments(root):
        noted = _read_all(root / name)
        kept = [entry for entry in noted if entry.commit.version >= removed]
        if not kept:
            (root / name).unlink(missing_ok=True)
        elif len(kept) < len(noted):
            replace_text(root / name, "".join(map(_line, kept)))


def _committed(changelog: Location, commit: Commit) -> datetime:
    """When it was committed, as the log tells; now where it does not tell any more."""
    for version in reversed(log_versions(changelog)):
        with suppress(FileNotFoundError):
            milliseconds, found = read_entry(changelog, version)
            if found is not None and found.version == commit.version and found.mode != "maintenance":
                return datetime.fromtimestamp(milliseconds / 1000, UTC)
            if found is not None and found.version < commit.version and found.mode != "maintenance":
                break
    return datetime.now(UTC)


def _line(entry: Recorded) -> str:
    slim = replace(entry.commit, decision={}, partitions=None, kinds=None, accounting={}, reads={}, totals={})
    return json.dumps({"at": entry.at.isoformat(), "record": slim.encode()}, separators=(",", ":")) + "\n"


def _segment(at: datetime) -> str:
    """The file of its hour: an object store cannot add to a file, and writes it anew with each note."""
    return f"versions-{at:%Y%m%dT%H}.jsonl"


def _segments(root: Location) -> list[str]:
    """The files of notes, oldest first. An older headrace has kept them all in one."""
    found = [name for name in names(root) if _SEGMENT.fullmatch(name)]
    return sorted(found, key=lambda name: (name != FILE, name))


def _noted(root: Location) -> list[Recorded]:
    return [entry for name in _segments(root) for entry in _read_all(root / name)]


def _read_all(file: Location) -> list[Recorded]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:  # forgotten since it was listed
        return []
    return [entry for line in lines if (entry := _read(line)) is not None]


def _read(line: str) -> Recorded | None:
    """None for a line that a kill cut short."""
    try:
        raw = json.loads(line)
    except ValueError:
        return None
    return Recorded(datetime.fromisoformat(raw["at"]), Commit.decode(raw["record"]))


def _last(root: Location) -> Recorded | None:
    for name in reversed(_segments(root)):
        if noted := _read_all(root / name):
            return noted[-1]
    return None
