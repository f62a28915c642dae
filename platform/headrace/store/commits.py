"""What every Delta commit of headrace says about itself, in its `userMetadata`.

Data and progress are one commit: a kill at any point leaves the whole refresh or nothing, and the log
itself tells where to go on.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from headrace.store.frontier import Offsets, Versions, decode_offsets

CommitMode = Literal["create", "stream", "backfill", "compaction"]


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
        batch: micro-batch id of the flow, -1 elsewhere.
        high: highest source sequence ever applied (stg only).
        source_ms: commit time at the source of the newest event applied, milliseconds since 1970.
        accounting: events in and what became of them (stg only).
        rows: rows of the table at this version.
        through: snapshot only: changelog version that its newest partition includes.
    """

    table: str
    mode: CommitMode
    version: int
    offsets: Offsets = field(default_factory=dict)
    upstreams: Versions = field(default_factory=dict)
    template: str = ""
    run_id: str = ""
    generation: int = 0
    batch: int = -1
    high: str = ""
    source_ms: int = 0
    accounting: dict[str, int] = field(default_factory=dict)
    rows: int = 0
    through: int = -1

    def encode(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def decode(cls, text: str) -> Commit:
        raw: dict[str, Any] = json.loads(text)
        raw["offsets"] = decode_offsets(raw.get("offsets", {}))
        return cls(**{k: v for k, v in raw.items() if k in cls.__dataclass_fields__})

    @property
    def frontier(self) -> dict[str, Any]:
        """The recorded cut as users see it."""
        return dict(self.offsets) if self.offsets else dict(self.upstreams)


def log_versions(table: Path) -> list[int]:
    """Versions that the Delta log still holds as JSON, ascending. Empty where there is no table."""
    log = table / "_delta_log"
    return sorted(int(f.stem) for f in log.glob("*.json") if f.stem.isdigit()) if log.is_dir() else []


def read_commit(table: Path, version: int) -> Commit | None:
    """The record of one Delta version, or None where headrace did not write it."""
    path = table / "_delta_log" / f"{version:020d}.json"
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if '"commitInfo"' not in line:
                continue
            text = json.loads(line).get("commitInfo", {}).get("userMetadata")
            return Commit.decode(text) if text and text.startswith("{") else None
    return None


def history(table: Path) -> list[tuple[int, Commit]]:
    """(Delta version, record) of every headrace commit, newest first."""
    found = ((v, read_commit(table, v)) for v in reversed(log_versions(table)))
    return [(v, c) for v, c in found if c is not None]


def latest(table: Path) -> tuple[int, Commit] | None:
    """The newest headrace commit of a table and its Delta version."""
    for version in reversed(log_versions(table)):
        commit = read_commit(table, version)
        if commit is not None:
            return version, commit
    return None
