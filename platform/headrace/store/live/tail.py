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


@dataclass(frozen=True)
class TailView:
    """The folded tail at one version. `rows` are live; `keys` were changed, so the snapshot's rows of
    these keys are void."""

    rows: pa.Table
    keys: KeySet
    version: int

    def find(self, columns: Sequence[str], keys: KeySet) -> pa.Table:
        return semi_join(self.rows, columns, keys)


@dataclass
class _Entry:
    version: int
    batch: pa.Table | None = None
    row: int = -1  # index into `batch`; -1: deleted


@dataclass
class Tail:
    """Folds change batches as they are committed. Thread-safe.

    Memory is one reference per changed key and the batches that still hold a latest row.
    """

    schema: TableSchema
    _entries: dict[tuple[Any, ...], _Entry] = field(default_factory=dict)
    _version: int = -1
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _view: TailView | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, changes: pa.Table, version: int) -> None:
        """Apply one version's net changes: at most one live row per key."""
        kinds = changes.column(KIND).to_pylist()
        keys = tuples(changes, self.schema.key)
        stored = changes.select(list(self.schema.stored_names))
        with self._lock:
            for index, (kind, key) in enumerate(zip(kinds, keys, strict=True)):
                current = self._entries.get(key)
                if kind in _LIVE:
                    self._entries[key] = _Entry(version, stored, index)
                elif current is None or current.version < version:
                    self._entries[key] = _Entry(version)
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
            self._entries = {k: e for k, e in self._entries.items() if e.version > version}
            self._view = None

    def view(self) -> TailView:
        """The folded rows now. Cheap where nothing changed since the last call."""
        with self._lock:
            if self._view is None:
                self._view = TailView(self._rows(), set(self._entries), self._version)
            return self._view

    def _rows(self) -> pa.Table:
        schema = arrow_schema(self.schema.stored)
        picked: dict[int, tuple[pa.Table, list[int]]] = {}
        for entry in self._entries.values():
            if entry.batch is not None:
                picked.setdefault(id(entry.batch), (entry.batch, []))[1].append(entry.row)
        parts = [batch.take(pa.array(rows, pa.int64())) for batch, rows in picked.values()]
        return pa.concat_tables([schema.empty_table(), *parts]).combine_chunks()
