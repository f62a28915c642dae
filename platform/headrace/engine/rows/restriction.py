"""What a range of a table's partitions lets the query leave unread of the tables that it reads."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from headrace.engine.table.table import Table
from headrace.planner.sql.direct import TIMES
from headrace.spec.partitions.label_range import LabelRange
from headrace.spec.partitions.labels import bounds
from headrace.store.schema import TableSchema, arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Labelled:
    """Rows whose label is in a range."""

    column: str
    labels: LabelRange

    def predicate(self) -> pc.Expression:
        """For Arrow."""
        label, only = pc.field(self.column), self.labels.only
        inside = (label >= self.labels.start) & (label <= self.labels.end)
        return inside if only is None else inside & label.isin(pa.array(sorted(only), pa.string()))


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
    labels: LabelRange | None,
) -> Labelled | Times | None:
    """The rows of one reference from which those of the range follow; None where that may be any row.

    Args:
        reference: its index into the table's references; `upstream` is its schema.
    """
    if labels is None:
        return None
    kinds = {name.lower(): (name, kind) for name, kind in upstream.columns}
    label, time = table.plan.partitions.column(reference), table.plan.partitions.time
    if label is not None:
        name, kind = kinds[label.lower()]
        return Labelled(name, labels) if kind == "string" else None
    if time is None:
        return None
    name, kind = kinds.get(time.lower(), (time, ""))
    if kind not in TIMES:
        return None
    following = bounds(table.spec, labels.end)[1]
    endless = following == datetime.max.replace(tzinfo=UTC)
    return Times(name, kind, bounds(table.spec, labels.start)[0], None if endless else following)
