"""One key, or all that is old, out of a stored table: change rows, snapshots, and what their logs tell.

Every step can be done again: killed in between, the table is right, and the same steps do the rest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headrace.storage.location import Location, delta_table
from headrace.store.delta.files import data_files, unused
from headrace.store.file_rows import FileRows, KeyRows, OldRows, Values
from headrace.store.live.key_joins import KeySet
from headrace.store.record import versions
from headrace.store.schema import VERSION, arrow_schema
from headrace.store.tables import StoredTable


@dataclass(frozen=True)
class Held:
    """What a table's files have of what goes.

    Args:
        changes: rows in files of the changelog, also of those that are no longer part of it.
        rows: the same of the snapshot and its older versions.
        live: current rows.
        tombstones: deletes that are kept for themselves.
        newest: version of its newest change row; 0 without any.
    """

    changes: int
    rows: int
    live: int
    tombstones: int
    newest: int


class Erasure(ABC):
    """What goes of one table."""

    def __init__(self, store: StoredTable) -> None:
        self.store = store

    @abstractmethod
    def held(self) -> Held:
        """Look through all files; those that were looked into before are not read again.

        Raises:
            Cold: the table is cold.
        """

    @abstractmethod
    def take_out_changes(self) -> None:
        """Take the change rows out of the changelog; what blocks older events stays.

        The caller holds `writing` and lets nobody read what it takes out.
        """

    @abstractmethod
    def purge(self, renew: Callable[[], None]) -> int:
        """Delete the files that have the rows still, and let the snapshot's log begin anew.

        No older version of the snapshot can be read afterwards.

        Args:
            renew: called before anything goes that an older view of the table may read.
        Returns:
            Number of files deleted.
        """

    def _purge(self, changes: FileRows, rows: FileRows, renew: Callable[[], None]) -> int:
        store = self.store
        with store.compacting:
            since = store.snapshot.begin_log_anew()
            store.adopt(store.snapshot.newest())
            renew()
            self._retain(whole_since=since, kept=())
            return store.changelog.purge(changes) + store.snapshot.purge(rows, since)

    def _retain(self, **less: Any) -> None:
        """Say that there is less, before it goes."""
        retained = replace(self.store.retained, **less)
        retained.save(self.store.root)
        self.store.use(retained)


class KeyErasure(Erasure):
    """Of a key.

    Args:
        places: its values by column; several where the table may carry it in several columns.
    """

    def __init__(self, store: StoredTable, places: Sequence[Values]) -> None:
        super().__init__(store)
        self._places = places
        schema = store.schema
        self._changes = KeyRows(arrow_schema(schema.logged), places, version=VERSION)
        self._rows = KeyRows(arrow_schema(schema.stored), places, partition=schema.partition)

    def held(self) -> Held:
        store, head = self.store, self.store.head()
        changes = [self._changes.of(file) for file in data_files(store.changelog.path)]
        live = [head.find(tuple(place), {tuple(place.values())}) for place in self._places]
        return Held(
            changes=sum(found.count for found in changes),
            rows=sum(self._rows.of(file).count for file in data_files(store.snapshot.path)),
            live=sum(rows.num_rows for rows in live),
            tombstones=store.deletes.kept(self._keys) if store.schema.sequenced else 0,
            newest=max((found.newest for found in changes), default=0),
        )

    @property
    def _keys(self) -> KeySet:
        return {tuple(place[column] for column in self.store.schema.key) for place in self._places}

    def take_out_changes(self) -> None:
        store = self.store
        with store.compacting:
            if store.schema.sequenced:
                store.deletes.keep_keys(self._keys)
            store.changelog.erase(self._changes)

    def purge(self, renew: Callable[[], None]) -> int:
        return self._purge(self._changes, self._rows, renew)


class HistoryErasure(Erasure):
    """Of all versions before the snapshot that there is when it is first looked at: rows stay as they are."""

    def __init__(self, store: StoredTable) -> None:
        super().__init__(store)
        self._through = -1
        self._files: Mapping[Location, int] = {}

    def held(self) -> Held:
        store = self.store
        if self._through < 0:
            self._through = store.pin.compacted
            every, snapshot = OldRows(None), store.snapshot.path
            self._files = {file: every.of(file).count for file in unused(snapshot, delta_table(snapshot))}
        old = OldRows(self._through)
        return Held(
            changes=sum(old.of(file).count for file in data_files(store.changelog.path)),
            rows=sum(count for file, count in self._files.items() if file.exists()),
            live=0,
            tombstones=0,
            newest=self._through,
        )

    def take_out_changes(self) -> None:
        store = self.store
        with store.compacting:
            self._retain(removed=max(store.retained.removed, self._through))
            versions.forget(store.root, self._through)
            store.changelog.erase(OldRows(self._through))

    def purge(self, renew: Callable[[], None]) -> int:
        return self._purge(OldRows(self._through), OldRows(None), renew)
