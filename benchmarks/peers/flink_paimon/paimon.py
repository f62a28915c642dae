"""A Paimon table's commits and rows, read from its files: snapshots, their manifests, changelog files."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.live.contender import Commit
from benchmarks.peers.changes import last_of_each
from benchmarks.peers.flink_paimon import avro

KIND, SEQUENCE = "_VALUE_KIND", "_SEQUENCE_NUMBER"
INSERT, UPDATE_AFTER = 0, 2
"""Kinds of rows; 1 is the row before an update, 3 a deletion."""


@dataclass
class PaimonTable:
    """One table with one bucket and without partitions, which one job writes.

    Args:
        directory: the table's folder in the warehouse.
        key: its primary key.
    """

    directory: Path
    key: tuple[str, ...]
    _known: dict[int, Commit] = field(default_factory=dict)
    _lists: list[str] = field(default_factory=list)
    _seen: set[int] = field(default_factory=set)

    def commits(self) -> list[Commit]:
        """Its commits with changes, in order."""
        for path in self.directory.glob("snapshot/snapshot-*"):
            number = int(path.name.rpartition("-")[2])
            if number in self._seen:
                continue
            snapshot = json.loads(path.read_text())
            self._seen.add(number)
            if snapshot["commitKind"] == "APPEND" and snapshot.get("changelogRecordCount"):
                changed = snapshot["changelogManifestList"]
                self._lists.append(changed)
                self._known[number] = Commit(
                    at=path.stat().st_mtime,
                    rows=snapshot["changelogRecordCount"],
                    images=partial(self._images, changed),
                )
        return [self._known[number] for number in sorted(self._known)]

    def rows(self) -> pa.Table:
        """Its content: the last change of each key, without deleted keys."""
        self.commits()
        changes = self._changes(self._lists)
        return _after(last_of_each(changes, self.key, SEQUENCE))

    def _images(self, manifest_list: str) -> pa.Table:
        return _after(self._changes([manifest_list]))

    def _changes(self, manifest_lists: Iterable[str]) -> pa.Table:
        """The content of all changelog files that these lists lead to."""
        folder = self.directory / "manifest"
        manifests = [part["_FILE_NAME"] for name in manifest_lists for part in avro.records(folder / name)]
        files = [entry["_FILE"]["_FILE_NAME"] for name in manifests for entry in avro.records(folder / name)]
        return pa.concat_tables(_read(self.directory / "bucket-0" / name) for name in files)


def _read(path: Path) -> pa.Table:
    changes = pq.ParquetFile(path).read()
    return changes.drop_columns([name for name in changes.column_names if name.startswith("_KEY_")])


def _after(changes: pa.Table) -> pa.Table:
    """The rows that were put, without Paimon's own columns."""
    put = pc.is_in(changes[KIND], pa.array([INSERT, UPDATE_AFTER], changes[KIND].type))
    return changes.filter(put).drop_columns([KIND, SEQUENCE])
