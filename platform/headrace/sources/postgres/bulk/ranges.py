"""A table divided into ranges of its pages, each read by one COPY."""

from __future__ import annotations

from dataclasses import dataclass

RANGE_BYTES = 48 << 20
"""Bytes of a table, large values included, that one range has: it is held and sorted in memory."""


@dataclass(frozen=True)
class PageRange:
    """Pages from `first` to before `end`; to the table's end, wherever that is, where `end` is None."""

    first: int
    end: int | None

    @property
    def condition(self) -> str:
        """A predicate that PostgreSQL runs as a scan of these pages alone (TID range scan)."""
        low = f"ctid >= '({self.first},0)'"
        return low if self.end is None else f"{low} AND ctid < '({self.end},0)'"


ALL_PAGES = PageRange(0, None)


def page_ranges(pages: int, size: int, *, at_most: int = RANGE_BYTES) -> list[PageRange]:
    """Ranges of about `at_most` bytes that cover every row, also of pages added since `pages` was read.

    Args:
        pages: of the table.
        size: bytes of these pages with their large values.
    """
    count = max(1, min(-(-size // at_most), pages))
    bounds = [pages * i // count for i in range(count)]
    return [PageRange(a, b) for a, b in zip(bounds, [*bounds[1:], None], strict=True)]
