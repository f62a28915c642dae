"""Messages that cannot be applied: kept with their bytes, offset and reason, while the stream goes on.

A letter is open until it was replayed or dropped. Both tables are plain Delta and append-only.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import pyarrow as pa
from deltalake import CommitProperties, write_deltalake
from deltalake.exceptions import TableNotFoundError

from headrace.errors import TerminalError
from headrace.storage.location import Location, delta_table, storage_options
from headrace.storage.permit import PERMIT
from headrace.store.delta import logs

_PLACE = [
    ("table", pa.string()),
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("offset", pa.int64()),
]

_SCHEMA = pa.schema(
    [
        *_PLACE,
        ("key", pa.string()),
        ("value", pa.string()),
        ("reason", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("raw_key", pa.binary()),
        ("raw_value", pa.binary()),
    ]
)

_SETTLED = pa.schema(
    [
        *_PLACE,
        ("outcome", pa.string()),
        ("why", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)

REPLAYED, DROPPED = "replayed", "dropped"

Place = tuple[str, str, int, int]
"""Table, topic, partition, offset: two tables of one topic have letters of their own."""


@dataclass(frozen=True)
class DeadLetter:
    """One refused message. `key` and `value` are its bytes."""

    table: str
    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    reason: str

    @property
    def place(self) -> Place:
        return self.table, self.topic, self.partition, self.offset


@dataclass(frozen=True)
class Doubtful:
    """Keys of which a table may lack a change, so that an image before a later one is not what it holds.

    Args:
        everything: a message without a key may have been about any.
    """

    keys: frozenset[str] = frozenset()
    everything: bool = False

    @classmethod
    def of(cls, keys: Iterable[bytes | None]) -> Doubtful:
        known = list(keys)
        texts = (key.decode("utf-8", "replace") for key in known if key is not None)
        return cls(frozenset(texts), None in known)

    def __or__(self, other: Doubtful) -> Doubtful:
        return Doubtful(self.keys | other.keys, self.everything or other.everything)

    def __contains__(self, key: str) -> bool:
        return self.everything or key in self.keys


class DeadLetters:
    """The dead letters of a warehouse. Thread-safe.

    Args:
        path: of the Delta table; what became of letters lies beside it, in `<path>_settled`.
        most: open letters of a table beyond which it halts.
    """

    def __init__(self, path: Location, most: int = 1_000) -> None:
        self.path = path
        self.settled_path = path.with_name(f"{path.name}_settled")
        self._most = most
        self._lock = threading.Lock()
        self._seen: set[Place] = set()
        self._open: Counter[str] = Counter()
        self._keys: dict[str, Counter[bytes | None]] = {}

    @property
    def places(self) -> tuple[Location, Location]:
        """Of both tables."""
        return self.path, self.settled_path

    def open(self) -> None:
        """Read what is there, so that a replayed batch adds nothing twice."""
        for row in self.rows():
            self._seen.add(_place(row))
            if row["outcome"] is None:
                self._note(row["table"], row["raw_key"], 1)

    def add(self, letters: Sequence[DeadLetter]) -> None:
        """Append the letters that are not there yet. Call it before the offsets are committed.

        Raises:
            TerminalError: a table has too many of them now; nothing is added.
        """
        with self._lock:
            new = [letter for letter in letters if letter.place not in self._seen]
            if not new:
                return
            for table in {letter.table for letter in new}:
                self._check([letter for letter in new if letter.table == table])
            at = datetime.now(UTC)
            _append(self.path, [_row(letter, at) for letter in new], _SCHEMA)
            for letter in new:
                self._seen.add(letter.place)
                self._note(letter.table, letter.key, 1)

    def _note(self, table: str, key: bytes | None, count: int) -> None:
        self._open[table] += count
        keys = self._keys.setdefault(table, Counter())
        keys[key] += count
        if not keys[key]:
            del keys[key]

    def doubtful(self, table: str) -> Doubtful:
        """The keys of which the table may lack a change."""
        with self._lock:
            return Doubtful.of(self._keys.get(table, ()))

    def _check(self, more: Sequence[DeadLetter]) -> None:
        """Raises TerminalError where these letters are too many for their table."""
        table = more[0].table
        count = self._open[table] + len(more)
        if count > self._most:
            raise TerminalError(
                f"`{table}`: {count} messages cannot be applied, more than the "
                f"{self._most} of `dead_letters_limit`; one reason: {more[0].reason}. Next: `headrace "
                f"dead-letters list {table}`; mend the cause, then `headrace dead-letters replay {table}` or "
                f"`headrace dead-letters drop {table}`, and `headrace resume {table}`"
            )

    def settle(self, letters: Sequence[dict[str, Any]], outcome: str, why: str = "") -> None:
        """Note what became of open letters.

        Args:
            letters: of `open_rows`.
        """
        with self._lock:
            at = datetime.now(UTC)
            values = [(*_place(letter), outcome, why, at) for letter in letters]
            if values:
                _append(
                    self.settled_path, [dict(zip(_SETTLED.names, v, strict=True)) for v in values], _SETTLED
                )
            for letter in letters:
                self._note(letter["table"], letter["raw_key"], -1)

    def erase(self, letters: Sequence[dict[str, Any]]) -> None:
        """Let the bytes of letters go, and what became of them stay; those that are open are dropped.

        Args:
            letters: of `rows`.
        """
        if not letters:
            return
        self.settle(
            [letter for letter in letters if letter["outcome"] is None], DROPPED, "its key was erased"
        )
        with self._lock:
            gone = {_place(letter) for letter in letters}
            left = [row for row in _read(self.path) if _place(row) not in gone]
            _append(self.path, left, _SCHEMA, mode="overwrite")
            table = delta_table(self.path)
            table.vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
            table = delta_table(self.path)
            table.create_checkpoint()
            logs.clean(self.path, needed=table.version(), seconds=0)  # older entries quote least and largest

    def count(self, table: str) -> int:
        """Open letters of the table."""
        return self._open[table]

    def rows(self, table: str | None = None) -> list[dict[str, Any]]:
        """All letters, or those of one table, oldest first, with `outcome` (None: open) and `why`.

        Of letters that an older headrace kept, the bytes are those of their texts.
        """
        became = {_place(row): row for row in _read(self.settled_path)}
        found = []
        for row in _read(self.path):
            if table is None or row["table"] == table:
                settled = became.get(_place(row), {})
                raw = {f"raw_{name}": _raw(row, name) for name in ("key", "value")}
                found.append({**row, **raw, "outcome": settled.get("outcome"), "why": settled.get("why")})
        return sorted(found, key=_place)

    def open_rows(self, table: str) -> list[dict[str, Any]]:
        """The table's open letters, oldest first."""
        return [row for row in self.rows(table) if row["outcome"] is None]

    def dropped(self, table: str) -> list[tuple[int, int]]:
        """Partition and offset of the messages that are not to be applied."""
        rows = [row for row in _read(self.settled_path) if row["table"] == table]
        return [(row["partition"], row["offset"]) for row in rows if row["outcome"] == DROPPED]


def _raw(row: dict[str, Any], name: str) -> bytes | None:
    raw: bytes | None = row.get(f"raw_{name}")
    return raw if raw is not None or row[name] is None else row[name].encode()


def _row(letter: DeadLetter, at: datetime) -> dict[str, Any]:
    texts = {"key": _text(letter.key), "value": _text(letter.value)}
    return {**vars(letter), **texts, "raw_key": letter.key, "raw_value": letter.value, "at": at}


def _place(row: dict[str, Any]) -> Place:
    return row["table"], row["topic"], row["partition"], row["offset"]


def _text(raw: bytes | None) -> str | None:
    """For a person to read."""
    return None if raw is None else raw.decode("utf-8", "replace")


def _append(
    path: Location,
    rows: list[dict[str, Any]],
    schema: pa.Schema,
    *,
    mode: Literal["append", "overwrite"] = "append",
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    properties = CommitProperties(custom_metadata={"userMetadata": json.dumps({"rows": len(rows)})})
    table = pa.Table.from_pylist(rows, schema=schema)
    PERMIT.check()
    # A table of an older headrace has no bytes.
    write_deltalake(
        str(path),
        table,
        mode=mode,
        schema_mode="merge",
        storage_options=storage_options(path),
        commit_properties=properties,
    )


def _read(path: Location) -> list[dict[str, Any]]:
    try:
        return delta_table(path).to_pyarrow_table().to_pylist()
    except TableNotFoundError:
        return []
