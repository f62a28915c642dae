"""One page of a table's changelog, for a subscriber: whole versions, hidden columns left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.catalog.readers import Reader, Readers
from headrace.engine.table.table import Registry, Table
from headrace.errors import TerminalError
from headrace.results import ChangePage
from headrace.store.schema import INSERT, KIND, ORIGIN, STREAM, UPDATE_AFTER, VERSION, arrow_schema
from headrace.store.tables import StoredTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.results import Start

PAGE_ROWS = 50_000
"""Rows after which a page ends, between two versions."""

SEEN_SECONDS = 60.0
"""Time between two notes that a reader is there although it has nothing to do."""


def page(spark: SparkSession, table: Table, readers: Readers, start: Start, reader: str | None) -> ChangePage:
    """The changes that follow `start`.

    Args:
        reader: a registered reader's name. A version given as `start` says what it has done; None begins
            where it stands, or at the oldest change there is where it is new.
    Raises:
        TerminalError: retention has removed the changes that follow, or there is no such version yet.
    """
    store, name = table.store, str(table.name)
    known = readers.find(name, reader) if reader is not None else None
    if start == "SNAPSHOT":
        found = _rows(spark, store)
    else:
        head = store.version
        after = _after(store, start, known, head)
        _check(name, store.changelog.removed, after, head)
        through = store.changelog.page_end(after, head, PAGE_ROWS) if after < head else head
        rows = store.changelog.read(after, through) if after < head else store.changelog.arrow.empty_table()
        found = ChangePage(_shown(store, rows), after, through, head)
    if reader is not None:
        _note(readers, known, name, reader, found.through if start == "SNAPSHOT" else found.after, found.head)
    return found


def listing(readers: list[Reader], registry: Registry) -> list[dict[str, Any]]:
    """Readers of the tables there are, each with how many versions it is behind."""
    versions = {str(table.name): table.store.version for table in registry}
    return [
        {
            "table": r.table,
            "reader": r.name,
            "position": r.position,
            "behind": versions[r.table] - r.position,
            "progressed_at": r.progressed_at,
            "expired": r.expired,
        }
        for r in readers
        if r.table in versions
    ]


def _after(store: StoredTable, start: Start, known: Reader | None, head: int) -> int:
    if isinstance(start, int):
        return start
    if start == "LATEST":
        return head
    return known.position if known is not None else store.changelog.removed


def _check(name: str, removed: int, after: int, head: int) -> None:
    if after < removed:
        raise TerminalError(
            f"`{name}`: the changes after version {after} are gone, retention kept those after version "
            f"{removed}. Next: `headrace changes {name} --from snapshot` gives the rows as they are and then "
            f"what changes, `--from {removed}` the oldest change there is"
        )
    if after > head:
        raise TerminalError(
            f"`{name}` is at version {head}, there is no version {after}. "
            f"Next: `headrace changes {name} --from {head} --follow`"
        )


def _note(readers: Readers, known: Reader | None, table: str, name: str, position: int, head: int) -> None:
    """Remember how far the reader has come; where it only waits, now and then that it is there."""
    from datetime import UTC, datetime

    if known is not None and not known.expired and known.position == position:
        waits = position == head
        if not waits or (datetime.now(UTC) - known.progressed_at).total_seconds() < SEEN_SECONDS:
            return
    readers.done(table, name, position)


def _rows(spark: SparkSession, store: StoredTable) -> ChangePage:
    """The table's rows at its version, each as an insert."""
    version = store.version
    rows = store.frame(spark, version=version).toArrow()
    constants = ((KIND, INSERT, pa.string()), (ORIGIN, STREAM, pa.string()), (VERSION, version, pa.int64()))
    for column, value, kind in constants:
        rows = rows.append_column(column, pa.array([value] * rows.num_rows, kind))
    return ChangePage(_shown(store, rows), -1, version, version)


def _shown(store: StoredTable, rows: pa.Table) -> pa.Table:
    """`_version`, `_kind`, `_origin`, the table's columns. In a version a key's old row comes first."""
    schema = store.schema
    live = pa.array([kind in (INSERT, UPDATE_AFTER) for kind in rows.column(KIND).to_pylist()], pa.bool_())
    order = [(c, "ascending") for c in (VERSION, *schema.key, "_live")]
    rows = rows.append_column("_live", live).sort_by(order)
    columns = arrow_schema(schema.columns).names
    return rows.select([VERSION, KIND, ORIGIN, *columns]).combine_chunks()
