"""AFFECTED_KEYS: find the key values that a change can touch, run the same SQL for just those."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from headrace.planner.paths import Path


@dataclass(frozen=True)
class AffectedKeys:
    """Every output row that differs has `columns` among the values of `trace` in a touched driving row.

    Attributes:
        columns: output columns K of the table.
        driving: index into `TableSpec.references` of the leaf D that K is copied from.
        trace: D's column behind each of `columns`, in the same order.
        paths: for every other reference the way to D; empty where D is the only leaf.
    """

    name: ClassVar[str] = "AFFECTED_KEYS"
    columns: tuple[str, ...]
    driving: int
    trace: tuple[str, ...]
    paths: tuple[Path, ...] = ()
