"""One writer per warehouse: whoever holds its lease."""

from __future__ import annotations

from typing import Protocol

from headrace.storage.location import Location
from headrace.storage.object_path import ObjectPath
from headrace.store.file_lease import FileLease
from headrace.store.stored_lease import StoredLease


class Lease(Protocol):
    """The exclusive right to write a warehouse."""

    def acquire(self) -> None:
        """Raises TerminalError, naming the holder, where another process has it."""

    def release(self) -> None: ...


def lease_of(warehouse: Location) -> Lease:
    """The lease of a warehouse: a lock where it is a folder of this machine, else an object in it."""
    place = warehouse / "lease"
    return StoredLease(place) if isinstance(place, ObjectPath) else FileLease(place)
