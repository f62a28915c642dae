"""The first rows of an empty table as Parquet files in place, committed to changelog and snapshot at the end.

Files are written by several threads, each from its own rows. Until the commit no reader sees them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties
from deltalake.transaction import AddAction

from headrace.storage.location import Location, arrow_place, delta_table
from headrace.storage.permit import PERMIT
from headrace.store.delta.files import NO_HOOKS
from headrace.store.record.commits import Commit
from headrace.store.schema import INSERT, KIND, ORIGIN, STREAM, VERSION, TableSchema, arrow_schema, conform

PREFIX = "load-"
ROW_GROUP_ROWS = 1 << 16
_STATISTICS = ("tinyint", "smallint", "int", "bigint", "date", "timestamp", "string")
_LONGEST_TEXT = 64


@dataclass(frozen=True)
class Part:
    """Files of some of the rows."""

    changelog: AddAction
    snapshot: tuple[AddAction, ...]
    rows: int


def write_part(root: Location, schema: TableSchema, rows: pa.Table, name: str, *, version: int) -> Part:
    """Write rows to a file of the changelog and to one of each snapshot partition, sorted by key.

    Args:
        rows: stored columns.
        name: of the files, without suffix; no two parts of a load share one.
        version: changelog version that the rows will have.
    """
    column = schema.partition
    order = [c for c in (column, *schema.key) if c is not None]
    rows = conform(rows, arrow_schema(schema.stored)).combine_chunks()
    rows = rows.take(pc.sort_indices(rows, [(c, "ascending") for c in order]))
    logged = rows
    for added, value in ((KIND, INSERT), (ORIGIN, STREAM), (VERSION, version)):
        constant = pa.repeat(pa.scalar(value, pa.int64() if added == VERSION else pa.string()), rows.num_rows)
        logged = logged.append_column(added, constant)
    log = _write(root / "changelog", f"{PREFIX}{name}.parquet", logged, {}, _of_version(version))
    pieces = [(None, rows)] if column is None else _by_partition(rows, column)
    files = []
    for position, (label, piece) in enumerate(pieces):
        stored = piece if column is None else piece.drop_columns([column])
        values = {} if column is None else {column: label}
        path = f"{_folder(column, label)}{PREFIX}{name}-{position}.parquet"
        files.append(_write(root / "snapshot", path, stored, values, _of_rows(stored, schema)))
    return Part(log, tuple(files), rows.num_rows)


def commit_parts(path: Location, actions: Sequence[AddAction], commit: Commit) -> None:
    """Add the files to the Delta table in one commit."""
    table = delta_table(path)
    PERMIT.check()
    table.create_write_transaction(
        list(actions),
        "append",
        table.schema(),
        partition_by=table.metadata().partition_columns,
        commit_properties=CommitProperties(
            custom_metadata={"userMetadata": commit.encode()}, max_commit_retries=0
        ),
        post_commithook_properties=NO_HOOKS,
    )


def remove_uncommitted(root: Location) -> int:
    """Delete the files of parts in a table that holds no rows. Returns how many."""
    gone = [p for part in ("changelog", "snapshot") for p in (root / part).rglob(f"{PREFIX}*.parquet")]
    for path in gone:
        path.unlink()
    return len(gone)


def _by_partition(rows: pa.Table, column: str) -> list[tuple[str | None, pa.Table]]:
    """Slices of rows that are sorted by the partition column, NULL last."""
    labels = rows.column(column).combine_chunks()
    runs = pc.run_end_encode(labels)
    ends, pieces, start = runs.run_ends.to_pylist(), [], 0
    for label, end in zip(runs.values.to_pylist(), ends, strict=True):
        pieces.append((label, rows.slice(start, end - start)))
        start = end
    return pieces


def _folder(column: str | None, label: str | None) -> str:
    """Hive's folder name, where the label needs no escaping; Delta itself goes by the commit's values."""
    if column is None or label is None or not label.replace("-", "").isalnum() or not label.isascii():
        return ""
    return f"{column}={label}/"


def _write(
    root: Location, path: str, rows: pa.Table, partition: dict[str, str | None], statistics: dict[str, Any]
) -> AddAction:
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    filesystem, place = arrow_place(target)
    pq.write_table(
        rows,
        place,
        filesystem=filesystem,
        compression="snappy",
        row_group_size=ROW_GROUP_ROWS,
        store_schema=False,
        store_decimal_as_integer=True,
    )
    text = json.dumps({"numRecords": rows.num_rows, **statistics})
    size, now = target.stat().st_size, int(time.time() * 1000)
    return AddAction(path, size, partition, now, True, text)


def _of_version(version: int) -> dict[str, Any]:
    return {"minValues": {VERSION: version}, "maxValues": {VERSION: version}, "nullCount": {VERSION: 0}}


def _of_rows(rows: pa.Table, schema: TableSchema) -> dict[str, Any]:
    """Smallest and largest values of the columns whose statistics are exact."""
    low, high, nulls = {}, {}, {}
    for name, kind in schema.stored:
        if kind not in _STATISTICS or name not in rows.column_names:
            continue
        column = rows.column(name)
        nulls[name] = column.null_count
        found = pc.min_max(column).as_py()
        values = [_plain(found[end]) for end in ("min", "max")]
        if None not in values:
            low[name], high[name] = values
    return {"minValues": low, "maxValues": high, "nullCount": nulls}


def _plain(value: Any) -> Any:
    """The value as Delta's statistics write it; None where they would cut it."""
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if value.year >= 1000 else None
    if isinstance(value, date):
        return value.isoformat()
    return None if isinstance(value, str) and len(value) > _LONGEST_TEXT else value
