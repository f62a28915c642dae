"""A Delta table's commits and rows, read from its log and its files of changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.bench.contender import Commit
from peers.changes import last_of_each

KIND, VERSION = "_change_type", "_commit_version"
PUT = ("insert", "update_postimage")
BEFORE = "update_preimage"


@dataclass
class MergedTable:
    """A table without partitions, which MERGE alone changes, with its change data feed on.

    Args:
        directory: the table's folder.
        key: the columns that the MERGE compares.
    """

    directory: Path
    key: tuple[str, ...]
    _known: dict[int, Commit] = field(default_factory=dict)
    _files: dict[int, list[Path]] = field(default_factory=dict)
    _next: int = 0

    def commits(self) -> list[Commit]:
        """Its commits with changes, in order."""
        while (path := self.directory / "_delta_log" / f"{self._next:020}.json").is_file():
            actions = [json.loads(line) for line in path.read_text().splitlines()]
            if files := list(self._changed(actions)):
                self._files[self._next] = files
                self._known[self._next] = Commit(
                    at=path.stat().st_mtime,
                    rows=sum(pq.read_metadata(file).num_rows for file in files),
                    images=partial(self._images, self._next),
                )
            self._next += 1
        return list(self._known.values())

    def rows(self) -> pa.Table:
        """Its content: the last change of each key, without deleted keys."""
        self.commits()
        changes = pa.concat_tables(self._changes(version) for version in self._files)
        changes = changes.filter(pc.not_equal(changes[KIND], BEFORE))
        return _after(last_of_each(changes, self.key, VERSION))

    def _images(self, version: int) -> pa.Table:
        return _after(self._changes(version))

    def _changed(self, actions: list[dict[str, Any]]) -> Iterator[Path]:
        """The commit's change files; a MERGE that only inserts has none: its new files are its changes."""
        changes = [action["cdc"] for action in actions if "cdc" in action]
        added = [action["add"] for action in actions if "add" in action and action["add"]["dataChange"]]
        for file in changes or added:
            yield self.directory / unquote(file["path"])

    def _changes(self, version: int) -> pa.Table:
        """The changed rows of a commit, with their kind and its version."""
        parts = []
        for file in self._files[version]:
            rows = pq.ParquetFile(file).read()
            if KIND not in rows.column_names:
                rows = rows.append_column(KIND, pa.array(["insert"] * rows.num_rows, pa.string()))
            parts.append(rows)
        changes = pa.concat_tables(parts)
        return changes.append_column(VERSION, pa.array([version] * changes.num_rows, pa.int64()))


def _after(changes: pa.Table) -> pa.Table:
    """The rows that were put, without the feed's own columns."""
    put = pc.is_in(changes[KIND], pa.array(PUT))
    return changes.filter(put).drop_columns([KIND, VERSION])
