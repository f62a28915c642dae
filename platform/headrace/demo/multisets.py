"""Two sets of rows compared as multisets, exactly: what each side has more of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pydantic import BaseModel

from headrace.errors import TerminalError, did_you_mean
from headrace.results import DifferingRow

if TYPE_CHECKING:
    import pyarrow as pa

Row = tuple[object, ...]
SAMPLE = 20


class Comparison(BaseModel):
    """`missing`: rows only the expected side has; `extra`: rows only the table has."""

    equal: bool
    rows: int
    missing: int
    extra: int
    sample: list[DifferingRow] = []


def compare(columns: Sequence[str], *, table: Iterable[Row], expected: Iterable[Row]) -> Comparison:
    """Equal values have one form here: a decimal equals its value at any scale, an instant in any zone."""
    have, want = Counter(table), Counter(expected)
    extra, missing = have - want, want - have
    sample = [
        *(DifferingRow(side="table", row=row) for row in _sample(columns, extra)),
        *(DifferingRow(side="expected", row=row) for row in _sample(columns, missing)),
    ]
    return Comparison(
        equal=not extra and not missing,
        rows=have.total(),
        missing=missing.total(),
        extra=extra.total(),
        sample=sample,
    )


def _sample(columns: Sequence[str], rows: Counter[Row]) -> list[dict[str, object]]:
    first = sorted(rows.elements(), key=str)[: SAMPLE // 2]
    return [dict(zip(columns, row, strict=True)) for row in first]


def tuples(table: pa.Table, columns: Sequence[str]) -> list[Row]:
    """The rows of an Arrow table in the given order of columns."""
    absent = [name for name in columns if name not in table.column_names]
    if absent:
        raise TerminalError(f"no column `{absent[0]}`; {did_you_mean(absent[0], table.column_names)}")
    return list(zip(*(table.column(name).to_pylist() for name in columns), strict=True))
