"""FULL: run the whole query again and apply the difference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Full:
    """Nothing is known about which rows a change can touch."""

    name: ClassVar[str] = "FULL"
