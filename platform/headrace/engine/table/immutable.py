"""Partitions that stay as they are: labels before a bound, which stands in the table's own commits.

What the query gives for them is left out of every change, no backfill writes them and no comparison counts
them. The bound comes from IMMUTABLE WHERE or from START_MODE; a statement moves it either way.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar, cast

import pyarrow as pa
import pyarrow.compute as pc

from headrace.engine.table.offline_bound import unwritten
from headrace.engine.table.records import note_reached
from headrace.engine.table.table import Table
from headrace.errors import TerminalError
from headrace.results import RefreshResult
from headrace.spec.model import TableSpec
from headrace.spec.partitions.label_range import LabelRange
from headrace.spec.partitions.labels import label_at
from headrace.store.record.commits import Commit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Rows = TypeVar("Rows", bound="pa.Table | DataFrame")


def mutable(rows: Rows, table: Table) -> Rows:
    """The rows, or changes of rows, that may change: none of an immutable partition."""
    bound, column = table.store.commit.immutable_before, table.store.schema.partition
    if not bound or column is None:
        return rows
    if isinstance(rows, pa.Table):
        late = pc.fill_null(pc.less(rows.column(column), pa.scalar(bound)), fill_value=False)
        return rows.filter(pc.invert(late))
    from pyspark.sql import functions as F

    return cast("Rows", rows.where(F.coalesce(rows[column] >= bound, F.lit(True))))


def nothing_left(table: Table, labels: LabelRange | None) -> RefreshResult | None:
    """The result of a backfill of a range that is immutable, or not complete, as a whole; else None."""
    closed = labels is not None and _closed(table, labels.end)
    if not closed and not unwritten(table, labels):
        return None
    return RefreshResult(
        table=str(table.name),
        start=labels.start if labels else "",
        end=labels.end if labels else "",
        partitions=[],
        rows=0,
        inserted=0,
        updated=0,
        deleted=0,
        version=table.store.version,
        seconds=0.0,
    )


def _closed(table: Table, end: str) -> bool:
    """Whether every partition up to `end` is immutable."""
    return end < table.store.commit.immutable_before


def refuse(table: Table, end: str) -> None:
    """Raises TerminalError where all of a range up to `end` is immutable."""
    if _closed(table, end):
        bound = table.store.commit.immutable_before
        raise TerminalError(
            f"`{table.name}`: partitions before '{bound}' are immutable. Next, to open them: `headrace sql "
            f'"ALTER MATERIALIZED TABLE {table.name} RESET IMMUTABLE"`, which computes them by the query'
        )


def start_label(spec: TableSpec, head: Commit | None, now: datetime) -> str:
    """The first partition that START_MODE lets the table compute; "" for all of them.

    Args:
        head: of the table that is there; None where it is new.
    """
    if spec.start is None:
        return ""
    reached = head.source_ms if head is not None and head.version else 0
    moment = spec.start.moment(now, datetime.fromtimestamp(reached / 1000, UTC) if reached else None)
    return "" if moment is None else label_at(spec, moment)


def create(table: Table) -> None:
    """Make the table's store where there is none, with the partitions that START_MODE leaves out closed."""
    bound = start_label(table.spec, None, datetime.now(UTC))
    table.store.create(table.template, table.spec.definition, bound)


def protect(table: Table, bound: str, *, run_id: str) -> bool:
    """Let the partitions before `bound` stay as they are from now on.

    Returns:
        False where they do already, or where the table has no rows yet.
    """
    store = table.store
    with store.writing:
        if bound <= store.commit.immutable_before or not table.reached:
            return False
        note_reached(table, run_id=run_id, immutable_before=bound)
    return True


def follow_declared(tables: Iterable[Table], *, run_id: str) -> None:
    """Close what layer files declare IMMUTABLE, as soon as the tables have rows."""
    for table in tables:
        bound = table.spec.immutable_before or ""
        # Looked at twice a second: nothing waits for a refresh under way where all is closed.
        if bound > table.store.commit.immutable_before and not table.reshaped:
            protect(table, bound, run_id=run_id)
