"""Some rows of a captured table: those that a condition holds for there, and others whose keys are known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

_KEYS = 5_000
"""Keys that one query asks for."""


@dataclass(frozen=True)
class Part:
    """
    Args:
        condition: in the source's SQL, over the table's columns.
        key: the table's key columns.
        others: key values, which none, some or all of its rows have.
    """

    condition: str
    key: tuple[str, ...]
    others: Sequence[tuple[Any, ...]]

    def conditions(self, name: Callable[[str], str], literal: Callable[[Any], str]) -> Iterator[str]:
        """Of queries that give each row of the part once, together.

        Args:
            name, literal: how the source's SQL writes a column's name, and a value.
        """
        yield f"({self.condition})"
        columns = ", ".join(map(name, self.key))
        for first in range(0, len(self.others), _KEYS):
            keys = self.others[first : first + _KEYS]
            rows = ", ".join(f"({', '.join(map(literal, key))})" for key in keys)
            yield f"({self.condition}) IS NOT TRUE AND ({columns}) IN ({rows})"
