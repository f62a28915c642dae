"""The changes after the snapshot, folded to the latest row per key and kept in the driver."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from headrace.store.live.key_joins import KeySet, semi_join, tuples
from headrace.store.schema import INSERT, KIND, UPDATE_AFTER, VERSION, TableSchema, arrow_schema

_LIVE = {INSERT, UPDATE_AFTER}

MOST_PARTS = 64
"""Batches of changes that are kept one by one; more are merged."""


@dataclass(frozen=True)
class TailView:
    """The folded tail at one version. `rows` are live; `keys` were changed, so the snapshot's rows of
    these keys are void."""

    rows: pa.Table
    keys: KeySet
    version: int

    def find(self, columns: Sequence[str], keys: KeySet) -> pa.Table:
        return semi_join(self.rows, columns, keys)


class _Part:
    """Rows that came together. Those that are not their key's latest are masked, and left out when read."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows
        self._latest = bytearray(rows.num_rows)
        self._read: pa.Table | None = None
        self.count = 0

    def add(self, row: int) -> None:
        self._latest[row] = 1
        self.count += 1
        self._read = None

    def drop(self, row: int) -> None:
        self._latest[row] = 0
        self.count -= 1
        self._read = None

    def places(self) -> dict[int, int]:
        """Where each latest row is among those that `read` gives."""
        return {row: place for place, row in enumerate(r for r, latest in enumerate(self._latest) if latest)}

    def read(self) -> pa.Table:
        """The latest rows."""
        if self._read is None:
            mask = pa.Array.from_buffers(
                pa.uint8(), len(self._latest), [None, pa.py_buffer(bytes(self._latest))]
            )
            whole = self.count == len(self._latest)
            self._read = self._rows if whole else self._rows.filter(mask.cast(pa.bool_()))
        return self._read


@dataclass
class _Entry:
    version: int
    part: _Part | None = None
    row: int = -1  # of `part`; -1: deleted

    def drop(self) -> None:
        """Another one is the key's latest."""
        if self.part is not None:
            self.part.drop(self.row)


@dataclass
class Tail:
    """Folds change batches as they are committed. Thread-safe.

    Memory is one reference per changed key and the batches that still hold a latest row. A read costs what
    changed since the last one: only parts of which rows were superseded are cut anew.
    """

    schema: TableSchema
    _entries: dict[tuple[Any, ...], _Entry] = field(default_factory=dict)
    _parts: list[_Part] = field(default_factory=list)
    _version: int = -1
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _view: TailView | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, changes: pa.Table, version: int) -> None:
        """Apply one version's net changes: at most one live row per key."""
        kinds = changes.column(KIND).to_pylist()
        keys = tuples(changes, self.schema.key)
        part = _Part(changes.select(list(self.schema.stored_names)))
        with self._lock:
            for row, (kind, key) in enumerate(zip(kinds, keys, strict=True)):
                current = self._entries.get(key)
                if kind in _LIVE:
                    part.add(row)
                    self._entries[key] = _Entry(version, part, row)
                elif current is None or current.version < version:
                    self._entries[key] = _Entry(version)
                else:
                    continue
                if current is not None:
                    current.drop()
            self._parts.append(part)
            self._version = version
            self._view = None

    def load(self, changes: pa.Table, version: int) -> None:
        """Apply many versions' changes, ordered by version, as read from the changelog."""
        versions = changes.column(VERSION).to_pylist()
        begin = 0
        for end in range(1, len(versions) + 1):
            if end == len(versions) or versions[end] != versions[begin]:
                self.add(changes.slice(begin, end - begin), versions[begin])
                begin = end
        with self._lock:
            self._version = version
            self._view = None

    def cut(self, version: int) -> None:
        """Forget what a snapshot at `version` already holds."""
        with self._lock:
            kept = {}
            for key, entry in self._entries.items():
                if entry.version > version:
                    kept[key] = entry
                else:
                    entry.drop()
            self._entries = kept
            self._view = None

    def view(self) -> TailView:
        """The folded rows now. Cheap where nothing changed since the last call."""
        with self._lock:
            if self._view is None:
                self._view = TailView(self._rows(), set(self._entries), self._version)
            return self._view

    def _rows(self) -> pa.Table:
        if not self._parts:
            return arrow_schema(self.schema.stored).empty_table()
        # One that holds no row any more still tells the columns.
        self._parts = [part for part in self._parts if part.count] or self._parts[-1:]
        rows = pa.concat_tables([part.read() for part in self._parts]).combine_chunks()
        if len(self._parts) > MOST_PARTS:
            self._merge(rows)
        return rows

    def _merge(self, rows: pa.Table) -> None:
        """Let one part hold the rows of all. `rows`: what they give, one after the other."""
        merged, places, begin = _Part(rows), {}, 0
        for part in self._parts:
            places[part] = (begin, part.places())
            begin += part.count
        for entry in self._entries.values():
            if entry.part is not None:
                begin, own = places[entry.part]
                entry.part, entry.row = merged, begin + own[entry.row]
                merged.add(entry.row)
        self._parts = [merged]
