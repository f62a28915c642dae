"""Some rows of a captured table: those that a condition holds for there, and others whose keys are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

KEYS = 5_000
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
