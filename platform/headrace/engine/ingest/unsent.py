"""Large values that PostgreSQL did not send because they did not change: what they are is known here already.

Without REPLICA IDENTITY FULL an update leaves them out. The row before the update has them: an earlier event
of the same batch, or else the table, where it holds the row as it was and gives the column as it is.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from headrace.engine.table.table import StgTable
from headrace.planner.sql.direct import direct
from headrace.sources.envelope import NetChange, has_row_before
from headrace.sources.types import SourceColumn, unsent_columns

Rows = Mapping[tuple[Any, ...], Mapping[str, Any]]


def lacking(table: StgTable, nets: Sequence[NetChange], left_alone: Collection[str]) -> list[int]:
    """Which changes lack a value that may be known.

    Args:
        left_alone: keys of which an event is missing: what the table holds of them is not the row before.
    """
    return [
        place
        for place, change in enumerate(nets)
        if change.key not in left_alone and first_lacking(table, change) is not None
    ]


def first_lacking(table: StgTable, change: NetChange) -> str | None:
    """The first column whose value the last event lacks. One that shows the row before has them all."""
    if change.after is None or has_row_before(change.events[-1]):
        return None
    return next((column.name for column in unsent_columns(table.source.columns, change.after)), None)


def fill(table: StgTable, change: NetChange, row: Mapping[str, Any] | None) -> NetChange:
    """The change with the values that it lacks, as far as they are known.

    Args:
        row: what the table holds of the key, older than all of the change's events; None for nothing.
    """
    assert change.after is not None
    image = json.loads(change.after)
    missing = {column.name: column for column in unsent_columns(table.source.columns, change.after)}
    for event in reversed(change.events[:-1]):
        if event.after is None:
            return change  # deleted, and here again: the row before it is another one
        sent = json.loads(event.after)
        unsent = {column.name for column in unsent_columns(table.source.columns, event.after)}
        for name in [name for name in missing if name in sent and name not in unsent]:
            image[name] = sent[name]
            del missing[name]
        if event.op != "u":
            row = None
    if row is not None:
        given = _given(table)
        for name, column in missing.items():
            if name in given and (told := _json(column, row[given[name]])) is not None:
                image[name] = told
    return replace(change, after=json.dumps(image, ensure_ascii=False))


def _given(table: StgTable) -> dict[str, str]:
    """Columns of the source that the table gives as they are, each with the name that it gives them."""
    query = direct(table.spec, dict(table.source.typed))
    return {} if query is None else {v.column: name for name, v in query.columns if v.pattern is None}


def _json(column: SourceColumn, value: Any) -> Any:
    """A stored value as Debezium writes it; None where that cannot be told."""
    if value is None:
        return None
    if column.spark == "binary":
        return base64.b64encode(value).decode()
    if column.spark == "string" and column.decode == "{}":
        return json.loads(value) if column.type.endswith("[]") else value
    return None
