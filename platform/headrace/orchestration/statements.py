"""The statements that Dagster submits, as text."""

from __future__ import annotations

from headrace.gateway.literals import literal
from headrace.spec.model import TableSpec
from headrace.spec.partitions.label_range import LabelRange


def refresh(spec: TableSpec, labels: LabelRange | None) -> str:
    """Recompute the range; the whole table without one."""
    return f"ALTER MATERIALIZED TABLE {spec.name} REFRESH{_partition(spec, labels)}"


def refresh_new(spec: TableSpec, turn: str) -> str:
    """Carry what is new to the table, if its workflow's turn is still to come."""
    return f"ALTER MATERIALIZED TABLE {spec.name} REFRESH NEW TURN {literal(turn)}"


def verify(spec: TableSpec, labels: LabelRange | None = None, *, source: bool = True) -> str:
    """Compare the table with its SQL and, where it has one, with its source."""
    without = "" if source or spec.source is None else " WITHOUT SOURCE"
    return f"VERIFY {spec.name}{_partition(spec, labels)}{without}"


def check(spec: TableSpec, labels: LabelRange | None = None) -> str:
    return f"CHECK {spec.name}{_partition(spec, labels)}"


def accounting(spec: TableSpec) -> str:
    return f"SHOW ACCOUNTING {spec.name}"


def rows_by_label(spec: TableSpec, labels: LabelRange | None = None) -> str:
    """Rows of each partition as columns `label` and `n`."""
    column = spec.partition_column
    where = ""
    if labels is not None:
        where = f" WHERE {column} >= {literal(labels.start)} AND {column} <= {literal(labels.end)}"
    return f"SELECT {column} AS label, count(*) AS n FROM {spec.name}{where} GROUP BY {column}"


def suspend(table: str) -> str:
    return f"ALTER MATERIALIZED TABLE {table} SUSPEND"


def resume(table: str) -> str:
    return f"ALTER MATERIALIZED TABLE {table} RESUME"


def _partition(spec: TableSpec, labels: LabelRange | None) -> str:
    if labels is None:
        return ""
    column = spec.partition_column
    if labels.start == labels.end:
        return f" PARTITION ({column} = {literal(labels.start)})"
    return f" PARTITION ({column} BETWEEN {literal(labels.start)} AND {literal(labels.end)})"
