"""AFFECTED_PARTITIONS: the same mechanism where only partition columns can be followed to a leaf."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from headrace.planner.paths import Path


@dataclass(frozen=True)
class AffectedPartitions:
    """As `AffectedKeys`, with `columns` all among the partition columns: whole partitions are run again."""

    name: ClassVar[str] = "AFFECTED_PARTITIONS"
    columns: tuple[str, ...]
    driving: int
    trace: tuple[str, ...]
    paths: tuple[Path, ...] = ()
