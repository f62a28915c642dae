"""A range of partition labels. Where none is given, the whole table is meant."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class LabelRange:
    """Labels from `start` to `end`, both included; none where `start` comes after `end`.

    Args:
        only: these labels of the range and no others.
    """

    start: str
    end: str
    only: frozenset[str] | None = None

    @classmethod
    def exactly(cls, labels: Collection[str]) -> LabelRange:
        """These labels, at least one, and no others."""
        return cls(min(labels), max(labels), frozenset(labels))

    def __contains__(self, label: str | None) -> bool:
        inside = label is not None and self.start <= label <= self.end
        return inside and (self.only is None or label in self.only)

    def among(self, labels: Iterable[str | None]) -> list[str]:
        """Those of `labels` that the range contains, in order."""
        return sorted(label for label in labels if label is not None and label in self)

    def clip(self, first: str = "", last: str = "") -> LabelRange:
        """The part from the label `first` on and up to `last`; "" leaves that end where it is."""
        return replace(self, start=max(self.start, first), end=min(self.end, last) if last else self.end)

    def __str__(self) -> str:
        return f"{self.start} … {self.end}"
