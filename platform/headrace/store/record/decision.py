"""How a refresh was chosen and what it took: a part of its commit's record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Decision:
    """The record of one refresh, part of its commit.

    Args:
        path: its `Place`, `driver, then cluster` where the driver gave up, or `load`.
        estimates: expected seconds by candidate.
        seconds: what the work took, up to its commit.
        changes: what happened to each upstream, in words.
        shadow: another candidate that ran beside it for comparison, and the seconds it took.
    """

    chosen: str
    path: str
    why: str
    estimates: Mapping[str, float]
    seconds: float
    rows_in: int
    rows_out: int
    driving: int = 0
    upstream: int = 0
    table: int = 0
    changes: Mapping[str, str] = field(default_factory=dict)
    shadow: Mapping[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Decision | None:
        """None where a version of headrace wrote it that kept other things."""
        try:
            return cls(**{k: v for k, v in raw.items() if k in cls.__dataclass_fields__})
        except TypeError:
            return None
