"""ROW: each upstream row gives at most one row of the table, under the same key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Row:
    """Run the query over the changed upstream rows only: old images give the rows that go, new images
    the rows that come."""

    name: ClassVar[str] = "ROW"
