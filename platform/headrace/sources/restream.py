"""A source's stream made anew: the connector goes on from another place of the database's log.

For a log that no longer has what the connector must read next, or a database that was put back to an older
copy of itself. What was changed between is in no event, so every table of the source must be read again; the
record of the place tells them (`sources.origin.Origin.slot`).
"""

from __future__ import annotations

import json
from pathlib import Path


def note_begin(state: Path, source: str, lsn: int) -> None:
    """Note where the stream of a source begins that is made anew.

    Args:
        state: the project's state directory.
    """
    path = _path(state, source)
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps({"lsn": lsn}), encoding="utf-8")
    new.replace(path)


def begins(state: Path, source: str) -> int:
    """Where the stream begins that was made anew last; 0 where none ever was."""
    try:
        return int(json.loads(_path(state, source).read_text(encoding="utf-8"))["lsn"])
    except FileNotFoundError:
        return 0


def _path(state: Path, source: str) -> Path:
    return state / "slots" / f"{source}.json"
