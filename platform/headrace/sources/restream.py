"""A source's stream made anew: the connector goes on from another place of the database's log.

For a log that no longer has what the connector must read next, or a database that was put back to an older
copy of itself. What was changed between is in no event, so every table of the source must be read again; the
record of the place tells them (`sources.origin.Origin.slot`).
"""

from __future__ import annotations

import json

from headrace.sources.records import SLOTS
from headrace.storage.location import Location, replace_text


def note_begin(records: Location, source: str, lsn: int) -> None:
    """Note where the stream of a source begins that is made anew.

    Args:
        records: see `sources.records`.
    """
    path = _path(records, source)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_text(path, json.dumps({"lsn": lsn}))


def begins(records: Location, source: str) -> int:
    """Where the stream begins that was made anew last; 0 where none ever was."""
    try:
        return int(json.loads(_path(records, source).read_text(encoding="utf-8"))["lsn"])
    except FileNotFoundError:
        return 0


def _path(records: Location, source: str) -> Location:
    return records / SLOTS / f"{source}.json"
