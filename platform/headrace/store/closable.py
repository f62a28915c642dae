"""Stores that can be closed to writers."""

from __future__ import annotations

from headrace.errors import TransientError
from headrace.storage.location import Location
from headrace.storage.permit import PERMIT


class Closable:
    """A Delta table that takes no writes once another definition has taken its place."""

    path: Location
    closed = False

    def check_open(self) -> None:
        """Raises TransientError: it is closed, or this process may write no table."""
        PERMIT.check()
        if self.closed:
            raise TransientError(f"{self.path}: its table is defined anew meanwhile. Next: the same again")
