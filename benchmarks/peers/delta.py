"""A Delta table's commits and rows, read from its log and its files."""

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
from deltalake import DeltaTable, QueryBuilder

from benchmarks.live.contender import Commit

FEED = ("_change_type", "__is_cdc")
"""Columns of the change data feed's files, beside the table's own."""
PUT = ("insert", "update_postimage")


@dataclass
class LoggedTable:
    """A table without partitions, with its change data feed on or changed by overwriting alone.

    Args:
        directory: the table's folder.
    """

    directory: Path
    _known: list[Commit] = field(default_factory=list)
    _next: int = 0

    def commits(self) -> list[Commit]:
        """Its commits with changes, in order."""
        while (path := self.directory / "_delta_log" / f"{self._next:020}.json").is_file():
            actions = [json.loads(line) for line in path.read_text().splitlines()]
            files = list(self._changed(actions))
            rows = sum(pq.read_metadata(file).num_rows for file in files)
            if rows:
                self._known.append(Commit(path.stat().st_mtime, rows, partial(_images, files)))
            self._next += 1
        return list(self._known)

    def rows(self) -> pa.Table:
        """Its content, without the rows that deletion vectors mark."""
        table = DeltaTable(self.directory)
        rows = pa.table(QueryBuilder().register("present", table).execute("SELECT * FROM present").read_all())
        views = {pa.string_view(): pa.string()}
        return rows.cast(pa.schema(f.with_type(views.get(f.type, f.type)) for f in rows.schema))

    def _changed(self, actions: list[dict[str, Any]]) -> Iterator[Path]:
        """The commit's change files; one that only inserts has none: its new files are its changes."""
        changes = [action["cdc"] for action in actions if "cdc" in action]
        added = [action["add"] for action in actions if "add" in action and action["add"]["dataChange"]]
        for file in changes or added:
            yield self.directory / unquote(file["path"])


def _images(files: list[Path]) -> pa.Table:
    """The rows that were put."""
    parts = []
    for file in files:
        rows = pq.ParquetFile(file).read()
        if FEED[0] in rows.column_names:
            rows = rows.filter(pc.is_in(rows[FEED[0]], pa.array(PUT)))
        parts.append(rows.drop_columns([name for name in FEED if name in rows.column_names]))
    return pa.concat_tables(parts)
