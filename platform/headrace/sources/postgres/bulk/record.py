"""What is remembered of a source's bulk snapshot: that it began, that its tables hold it, that it streams.

One small file a source, replaced at once, so a kill leaves the one state or the next.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal

from headrace.sources.records import SNAPSHOTS
from headrace.storage.location import Location, replace_text

State = Literal["LOADING", "LOADED", "STREAMING"]


@dataclass(frozen=True)
class LoadRecord:
    """
    Args:
        source: the connector's name.
        slot: its replication slot: made by the load, so an unfinished load may drop it.
        state: `LOADING` until every table is committed, `STREAMING` once the connector has its position.
        lsn: the slot's consistent point: the snapshot holds what was committed before, the stream the rest.
        rows: read from the source.
    """

    source: str
    slot: str
    state: State
    lsn: int = 0
    rows: int = 0
    seconds: float = 0.0

    @property
    def complete(self) -> bool:
        return self.state != "LOADING"

    def save(self, records: Location) -> None:
        """
        Args:
            records: see `sources.records`.
        """
        path = _path(records, self.source)
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(path, json.dumps(asdict(self)))


def load_record(records: Location, source: str) -> LoadRecord | None:
    """The record, None where no bulk snapshot of the source was ever begun (or it was given up)."""
    try:
        return LoadRecord(**json.loads(_path(records, source).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None


def forget(records: Location, source: str) -> None:
    """Nothing of the load is left: the connector may read the source."""
    _path(records, source).unlink(missing_ok=True)


def _path(records: Location, source: str) -> Location:
    return records / SNAPSHOTS / f"{source}.json"
