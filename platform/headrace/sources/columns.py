"""A captured table's columns, as the SQL over them needs them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace

from headrace.spec.sql.literals import text_literal

_UNSENT = "__debezium_unavailable_value"
_UNSENT_BASE64 = base64.b64encode(_UNSENT.encode()).decode()
UNSENT_MARKS = (_UNSENT, _UNSENT_BASE64)
"""Texts of which a message that lacks a large value holds one; others may, too. See `SourceColumn.unsent`."""


@dataclass(frozen=True)
class SourceColumn:
    """One captured column.

    Args:
        name: as in the source.
        spark: Spark SQL type of the stg column.
        json: Spark SQL type under which the JSON value is read.
        decode: Spark SQL expression that turns the read value (`{}`) into `spark`; NULL where it cannot.
        select: expression of the source's SQL (`{}` is the quoted column) that reads the same value.
        type: as the source prints it; empty where that is not known.
        dropped: the source has no such column any more: its values are NULL.
        unit: of the JSON number of a time without a zone: "us" or "ms".
        zero: JSON text of a time that is none, so that its value is NULL.
        always_sent: whether each change has the value, also where it did not change.
    """

    name: str
    spark: str
    json: str
    decode: str = "{}"
    select: str = "{}"
    type: str = ""
    dropped: bool = False
    always_sent: bool = False
    unit: str = "us"
    zero: str | None = None

    @property
    def unsent(self) -> str | None:
        """How the JSON value reads, as text, where PostgreSQL did not send it because it did not change.

        None: it is always sent.
        """
        if self.always_sent:
            return None
        if self.spark == "binary":
            return _UNSENT_BASE64
        return f'["{_UNSENT}"]' if self.type.endswith("[]") else _UNSENT


def not_named(name: str) -> str | None:
    """Why a column of that name does not come with its rows; None where it does."""
    return "its name has a `, which Spark's expressions do not take" if "`" in name else None


def absent(column: SourceColumn) -> SourceColumn:
    """The column after it was dropped from the source."""
    return replace(column, select="NULL", dropped=True)


def unsent_column(columns: Iterable[SourceColumn], image: str) -> str | None:
    """The first column whose value the image lacks, because PostgreSQL did not send what did not change.

    Args:
        image: JSON text of a row after a change.
    """
    if not any(mark in image for mark in UNSENT_MARKS):
        return None
    values = json.loads(image)
    for column in columns:
        value = values.get(column.name)
        text = json.dumps(value, separators=(",", ":")) if isinstance(value, list) else value
        if text is not None and text == column.unsent:
            return column.name
    return None


def unsent_sql(columns: Iterable[SourceColumn], image: str) -> str:
    """A Spark SQL expression for `unsent_column`; `image` names the column with the JSON."""
    marked = " OR ".join(f"contains({image}, '{mark}')" for mark in UNSENT_MARKS)
    values = f"from_json({image}, 'map<string,string>')"
    asked = " ".join(
        f"WHEN {values}[{text_literal(c.name)}] = {text_literal(c.unsent)} THEN {text_literal(c.name)}"
        for c in columns
        if c.unsent
    )
    if not asked:
        return "cast(NULL AS string)"
    return f"CASE WHEN {marked} THEN CASE {asked} END END"
