"""What became of a case: passed, or the rows that differ, or why it could not be played."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from headrace.cases.model import Step
from headrace.cases.values import Columns, rows_of

SHOWN = 10
"""Differing rows of each side that a text shows."""

Row = tuple[str, ...]


@dataclass(frozen=True)
class Difference:
    """How a table's rows differ from those expected.

    Args:
        columns: those compared.
        missing: rows that are expected and not there, as text.
        extra: rows that are there and not expected.
    """

    columns: tuple[str, ...]
    missing: tuple[Row, ...]
    extra: tuple[Row, ...]

    def lines(self) -> list[str]:
        """A table of the rows: `-` is missing, `+` is too many."""
        rows = [("-", *row) for row in self.missing[:SHOWN]] + [("+", *row) for row in self.extra[:SHOWN]]
        table = [("", *self.columns), *rows]
        widths = [max(len(row[i]) for row in table) for i in range(len(self.columns) + 1)]
        found = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in table
        ]
        left = max(0, len(self.missing) - SHOWN) + max(0, len(self.extra) - SHOWN)
        return [*found, f"… and {left} more"] if left else found


@dataclass(frozen=True)
class Outcome:
    """One case in one mode.

    Args:
        where: `file:line:column` of the case, or of what is wrong in it.
        problem: in one line; "" for a case that passed.
        difference: the rows, where it is about rows.
    """

    table: str
    case: str
    mode: str
    where: str
    seconds: float
    problem: str = ""
    difference: Difference | None = None

    @property
    def passed(self) -> bool:
        return not self.problem

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "passed": self.passed}

    def lines(self) -> list[str]:
        """What a person reads of a case that failed."""
        head = f"{self.where}: {self.table}: {self.case} as {self.mode}: {self.problem}"
        rows = self.difference.lines() if self.difference is not None else []
        return [head, *(f"    {line}" for line in rows)]


def difference(step: Step, found: pa.Table, columns: Columns, table: str) -> Difference | None:
    """The rows that a step expects against those found, as multisets; None where they are the same.

    The columns compared are those that the expected rows name: all of them where there are none.

    Raises:
        SpecError: an expected row has a column or a value that the table cannot have.
    """
    named = {name for row in step.expect for name in row.values}
    wanted = rows_of(step.expect, columns, table)
    names = [name for name, _ in columns if not named or name in named]
    expect, have = _counted(wanted, names), _counted(found, names)
    missing, extra = expect - have, have - expect
    if not missing and not extra:
        return None
    return Difference(tuple(names), _rows(missing), _rows(extra))


def _counted(rows: pa.Table, names: Sequence[str]) -> Counter[Row]:
    values = rows.select(list(names)).to_pylist()
    return Counter(tuple(_shown(row[name]) for name in names) for row in values)


def _shown(found: Any) -> str:
    if found is None:
        return "NULL"
    return found.isoformat(" ") if hasattr(found, "hour") else str(found)


def _rows(counted: Counter[Row]) -> tuple[Row, ...]:
    return tuple(sorted(counted.elements()))
