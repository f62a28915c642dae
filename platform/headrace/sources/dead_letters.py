"""Messages that cannot be applied: kept with their bytes, offset and reason, while the stream goes on."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import TableNotFoundError

_SCHEMA = pa.schema(
    [
        ("table", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("key", pa.string()),
        ("value", pa.string()),
        ("reason", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)


@dataclass(frozen=True)
class DeadLetter:
    """One refused message. `(topic, partition, offset)` identifies it."""

    table: str
    topic: str
    partition: int
    offset: int
    key: str | None
    value: str | None
    reason: str


class DeadLetters:
    """The dead-letter table of a warehouse: plain Delta, append-only. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._seen: set[tuple[str, int, int]] = set()
        self._counts: Counter[str] = Counter()

    def open(self) -> None:
        """Read what is there, so that a replayed batch adds nothing twice."""
        for row in self.rows():
            self._seen.add((row["topic"], row["partition"], row["offset"]))
            self._counts[row["table"]] += 1

    def add(self, letters: Sequence[DeadLetter]) -> None:
        """Append the letters that are not there yet. Call it before the offsets are committed."""
        with self._lock:
            new = [x for x in letters if (x.topic, x.partition, x.offset) not in self._seen]
            if not new:
                return
            at = datetime.now(UTC)
            table = pa.Table.from_pylist([{**vars(letter), "at": at} for letter in new], schema=_SCHEMA)
            self.path.parent.mkdir(parents=True, exist_ok=True)
            properties = CommitProperties(custom_metadata={"userMetadata": json.dumps({"rows": len(new)})})
            write_deltalake(str(self.path), table, mode="append", commit_properties=properties)
            for letter in new:
                self._seen.add((letter.topic, letter.partition, letter.offset))
                self._counts[letter.table] += 1

    def count(self, table: str) -> int:
        return self._counts[table]

    def rows(self) -> list[dict[str, Any]]:
        """All letters, oldest first."""
        try:
            found = DeltaTable(str(self.path)).to_pyarrow_table()
        except TableNotFoundError:
            return []
        return found.sort_by(
            [("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")]
        ).to_pylist()
