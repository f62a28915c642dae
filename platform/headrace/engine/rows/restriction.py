"""What a range of a table's partitions lets the query leave unread of the tables that it reads."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from headrace.engine.table.table import Table
from headrace.planner.sql.direct import TIMES
from headrace.spec.partitions.labels import bounds
from headrace.store.schema import TableSchema, arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Labels:
    """Rows whose label lies in an inclusive range. `only`: labels of it, no others."""

    column: str
    start: str
    end: str
    only: Collection[str] | None

    def predicate(self) -> pc.Expression:
        """For Arrow."""
        label = pc.field(self.column)
        inside = (label >= self.start) & (label <= self.end)
        return inside if self.only is None else inside & label.isin(pa.array(sorted(self.only), pa.string()))


@dataclass(frozen=True)
class Times:
    """Rows whose time is `start` or later and before `end`, None for no end. In UTC, as labels are.

    Args:
        kind: the column's Spark type.
    """

    column: str
    kind: str
    start: datetime
    end: datetime | None

    def predicate(self) -> pc.Expression:
        """For Arrow."""
        time, kind = pc.field(self.column), arrow_schema(((self.column, self.kind),)).field(0).type
        inside = time >= pa.scalar(self.start, kind)
        return inside if self.end is None else inside & (time < pa.scalar(self.end, kind))

    def applied(self, rows: DataFrame) -> DataFrame:
        """These of the rows, by Spark, which leaves files unread."""
        rows = rows.where(f"`{self.column}` >= {self._literal(self.start)}")
        return rows if self.end is None else rows.where(f"`{self.column}` < {self._literal(self.end)}")

    def _literal(self, moment: datetime) -> str:
        return f"{self.kind.upper()} '{moment.replace(tzinfo=None).isoformat(sep=' ')}'"


def restriction(
    table: Table,
    reference: int,
    upstream: TableSchema,
    start: str | None,
    end: str | None,
    only: Collection[str] | None,
) -> Labels | Times | None:
    """The rows of one reference from which those of the range follow; None where that may be any row.

    Args:
        reference: its index into the table's references; `upstream` is its schema.
        start: inclusive labels, as `end`.
    """
    if start is None or end is None:
        return None
    kinds = {name.lower(): (name, kind) for name, kind in upstream.columns}
    label, time = table.plan.partitions.column(reference), table.plan.partitions.time
    if label is not None:
        name, kind = kinds[label.lower()]
        return Labels(name, start, end, only) if kind == "string" else None
    if time is None:
        return None
    name, kind = kinds.get(time.lower(), (time, ""))
    if kind not in TIMES:
        return None
    following = bounds(table.spec, end)[1]
    endless = following == datetime.max.replace(tzinfo=UTC)
    return Times(name, kind, bounds(table.spec, start)[0], None if endless else following)
