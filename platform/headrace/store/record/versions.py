"""Which versions of a table are on record, and since when: where a rewind can go back to.

The Delta log tells of each commit, but only for an hour. Maintenance therefore notes the newest version
every minute in `versions.jsonl` beside the changelog; retention forgets those whose changes it removes.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from headrace.store.record.commits import Commit, log_versions, read_entry

FILE = "versions.jsonl"

NOTE_SECONDS = 60.0
"""Time between two notes of a table that changes."""

TAIL_BYTES = 1 << 16
"""Of the file, in which its last note is looked for."""


@dataclass(frozen=True)
class Recorded:
    """A version's record, and when it was committed."""

    at: datetime
    commit: Commit


def recorded(root: Path) -> list[Recorded]:
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


def note(root: Path, commit: Commit) -> bool:
    """Note the newest version, where that is due. True where it was noted."""
    last = _last(root)
    if commit.version == 0 or (last is not None and last.commit.version >= commit.version):
        return False
    at = _committed(root / "changelog", commit)
    if last is not None and (at - last.at).total_seconds() < NOTE_SECONDS:
        return False
    with (root / FILE).open("a", encoding="utf-8") as file:
        file.write(_line(Recorded(at, commit)))
    return True


def forget(root: Path, removed: int) -> None:
    """Drop the notes of versions before `removed`."""
    noted = _noted(root)
    kept = [entry for entry in noted if entry.commit.version >= removed]
    if len(kept) == len(noted):
        return
    temporary = root / f"{FILE}.new"
    with temporary.open("w", encoding="utf-8") as file:
        file.writelines(map(_line, kept))
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(root / FILE)


def _committed(changelog: Path, commit: Commit) -> datetime:
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


def _noted(root: Path) -> list[Recorded]:
    path = root / FILE
    if not path.is_file():
        return []
    with path.open(encoding="utf-8") as lines:
        return [entry for line in lines if (entry := _read(line)) is not None]


def _read(line: str) -> Recorded | None:
    """None for a line that a kill cut short."""
    try:
        raw = json.loads(line)
    except ValueError:
        return None
    return Recorded(datetime.fromisoformat(raw["at"]), Commit.decode(raw["record"]))


def _last(root: Path) -> Recorded | None:
    path = root / FILE
    if not path.is_file():
        return None
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - TAIL_BYTES))
        lines = file.read().decode(errors="replace").splitlines()
    return next((entry for line in reversed(lines) if (entry := _read(line)) is not None), None)
