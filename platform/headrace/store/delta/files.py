"""The files of a changelog, each with the versions it holds; merging small ones and letting old ones go.

Both are commits of their own in the Delta log that change no row a reader may ask for. They carry the newest
record along (mode `maintenance`), so that it is found although its own log entry is cleaned up one day.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties
from deltalake.transaction import AddAction, RemoveAction

from headrace.storage.location import Location, arrow_place, delta_table, is_delta_table
from headrace.storage.permit import PERMIT
from headrace.store.record.commits import Commit
from headrace.store.schema import VERSION

NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)

SMALL_BYTES = 32 << 20
"""Size from which a file is left alone."""

TIER, TINY_BYTES = 4, 1 << 20
"""A run is not extended by a file more than TIER times its size so far (TINY_BYTES at least)."""


@dataclass(frozen=True)
class LoggedFile:
    """A file of a changelog and the range of versions whose rows it has."""

    path: str
    size: int
    rows: int
    low: int
    high: int


def logged_files(table: DeltaTable) -> list[LoggedFile]:
    """All files, oldest versions first. A file without statistics may hold any version."""
    actions = pa.table(table.get_add_actions(flatten=True))

    def column(name: str) -> list[Any]:
        found = name in actions.column_names
        return actions.column(name).to_pylist() if found else [None] * actions.num_rows

    found = [
        LoggedFile(path, size or 0, rows or 0, -1 if low is None else low, 1 << 62 if high is None else high)
        for path, size, rows, low, high in zip(
            actions.column("path").to_pylist(),
            column("size_bytes"),
            column("num_records"),
            column(f"min.{VERSION}"),
            column(f"max.{VERSION}"),
            strict=True,
        )
    ]
    return sorted(found, key=lambda f: (f.low, f.high))


def size(path: Location) -> tuple[int, int]:
    """Partitions and bytes of a Delta table's files; `(0, 0)` where there is none."""
    if not is_delta_table(path):
        return 0, 0
    table = delta_table(path)
    actions = pa.table(table.get_add_actions(flatten=True))
    columns = [f"partition.{name}" for name in table.metadata().partition_columns]
    places = set(zip(*(actions.column(c).to_pylist() for c in columns), strict=True)) if columns else set()
    return len(places), sum(actions.column("size_bytes").to_pylist())


def mergeable(files: Sequence[LoggedFile], *, bound: int) -> list[list[LoggedFile]]:
    """Runs of neighbouring small files to make one of, each at most `SMALL_BYTES` long; [] within the bound.

    Only neighbours are merged, so that files keep dividing the versions and a range still prunes. A file
    much larger than all newer ones of its run waits until they have grown (size-tiered, as in an LSM tree):
    otherwise each merge would write the same old rows again.
    """
    small = [f for f in files if f.size < SMALL_BYTES and f.low >= 0]
    if len(small) <= bound:
        return []
    return _runs(files, TIER) or _runs(files, SMALL_BYTES)


def _runs(files: Sequence[LoggedFile], tier: int) -> list[list[LoggedFile]]:
    groups: list[list[LoggedFile]] = [[]]
    size = 0
    for file in reversed(files):
        if file.size >= SMALL_BYTES or file.low < 0:
            groups.append([])
            size = 0
            continue
        if groups[-1] and (size + file.size > SMALL_BYTES or file.size > tier * max(size, TINY_BYTES)):
            groups.append([])
            size = 0
        groups[-1].append(file)
        size += file.size
    return [g for g in groups if len(g) > 1]


def merge(root: Location, table: DeltaTable, groups: list[list[LoggedFile]], record: Commit) -> None:
    """Replace each group by one file of its rows, ordered by version: one commit without data change."""
    now = int(time.time() * 1000)
    actions: list[AddAction | RemoveAction] = []
    for group in groups:
        parts = [_read(root / f.path) for f in group]
        rows = pa.concat_tables(parts, promote_options="default").sort_by(VERSION)
        low, high = min(f.low for f in group), max(f.high for f in group)
        actions.append(_written(root, rows, low, high, now))
        actions += [_remove(f, now, data_change=False) for f in group]
    commit_actions(table, actions, record)


def rewrite(
    root: Location,
    table: DeltaTable,
    files: Sequence[LoggedFile],
    kept: Callable[[pa.Table], pa.Table],
    record: Commit,
) -> None:
    """Replace each file by one of the rows of it that are kept, in one commit.

    To Delta's own streams it is no change: nobody is told of the rows that go.
    """
    now = int(time.time() * 1000)
    actions: list[AddAction | RemoveAction] = []
    for file in files:
        rows = kept(_read(root / file.path))
        if rows.num_rows:
            actions.append(_written(root, rows, file.low, file.high, now))
        actions.append(_remove(file, now, data_change=False))
    commit_actions(table, actions, record)


def _read(file: Location) -> pa.Table:
    """All rows of a Parquet file, whose folder says nothing of them."""
    filesystem, place = arrow_place(file)
    with pq.ParquetFile(place, filesystem=filesystem) as parquet:
        return parquet.read()


def _written(root: Location, rows: pa.Table, low: int, high: int, now: int) -> AddAction:
    """A new file of a changelog's rows, of versions from `low` to `high`."""
    name = f"merged-{uuid.uuid4().hex}.snappy.parquet"
    filesystem, place = arrow_place(root / name)
    pq.write_table(rows, place, filesystem=filesystem, row_group_size=1 << 16)
    statistics = {
        "numRecords": rows.num_rows,
        "minValues": {VERSION: low},
        "maxValues": {VERSION: high},
        "nullCount": {VERSION: 0},
    }
    return AddAction(name, (root / name).stat().st_size, {}, now, False, json.dumps(statistics))


def data_files(root: Location) -> list[Location]:
    """All data files below a Delta table's folder, of whatever version, or of none."""
    log = f"{root}/_delta_log/"
    return sorted(p for p in root.rglob("*.parquet") if not str(p).startswith(log))


def unused(root: Location, table: DeltaTable) -> list[Location]:
    """The data files that the table's version is not made of."""
    paths = pa.table(table.get_add_actions(flatten=True)).column("path").to_pylist()
    used = {root / spelling for path in paths for spelling in (path, unquote(path))}
    return [p for p in data_files(root) if p not in used]


def remove(table: DeltaTable, files: list[LoggedFile], record: Commit) -> None:
    """Let whole files go, in one commit."""
    now = int(time.time() * 1000)
    commit_actions(table, [_remove(f, now, data_change=True) for f in files], record)


def _remove(file: LoggedFile, now: int, *, data_change: bool) -> RemoveAction:
    return RemoveAction(file.path, data_change, now, file.size, {})


def commit_actions(table: DeltaTable, actions: list[AddAction | RemoveAction], record: Commit) -> None:
    """Commit beside whoever appends meanwhile: Delta puts this commit after theirs."""
    PERMIT.check()
    table.create_write_transaction(
        actions,
        "append",
        table.schema(),
        commit_properties=maintenance(record),
        post_commithook_properties=NO_HOOKS,
    )


def vacuum(path: Location, *, hours: int, kept: Sequence[int], record: CommitProperties) -> list[str]:
    """Delete data files that no version newer than `hours`, nor one of the `kept` ones, is made of."""
    PERMIT.check()
    return delta_table(path).vacuum(
        retention_hours=hours,
        dry_run=False,
        enforce_retention_duration=False,
        full=True,
        keep_versions=list(kept) or None,
        commit_properties=record,
        post_commithook_properties=NO_HOOKS,
    )


def maintenance(record: Commit) -> CommitProperties:
    """Properties of a commit that carries `record` along."""
    carried = replace(record, mode="maintenance", accounting={})
    return CommitProperties(custom_metadata={"userMetadata": carried.encode()})
