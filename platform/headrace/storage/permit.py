"""Until when this process may commit to the warehouse: as long as its lease certainly has no other holder."""

from __future__ import annotations

import ctypes
import math
import mmap
import threading
import time
from pathlib import Path

from headrace.errors import TransientError

NANOSECONDS = 1_000_000_000

PATIENCE_SECONDS = 3.0
"""How long a commit waits for a renewal: a process that wakes may ask before its lease was renewed."""


class Permit:
    """Asked before each commit, by this process and by its JVM, which reads it from a file.

    A process that has stood still, and wakes when another one has taken its lease, must not commit with what
    it has begun; its lease's own thread hears of that, but perhaps later than another thread commits.

    Without a lease there is no end: whoever writes tables in a test, say, is alone.
    """

    def __init__(self) -> None:
        self._until = math.inf
        self._extended = threading.Condition()
        self._shared: ctypes.c_int64 | None = None

    def share(self, file: Path) -> None:
        """Let the JVM know, by nanoseconds of the clock that both have, in the file's first eight bytes.

        They are stored at once: nobody reads half of one moment and half of another.
        """
        file.unlink(missing_ok=True)  # cut short, the JVM of an earlier process would fail as it reads it
        file.write_bytes(bytes(mmap.PAGESIZE))
        with file.open("r+b") as opened:
            self._shared = ctypes.c_int64.from_buffer(mmap.mmap(opened.fileno(), mmap.PAGESIZE))
        self._tell()

    def extend(self, until: float) -> None:
        """
        Args:
            until: seconds of `time.monotonic`; infinite for no end.
        """
        with self._extended:
            self._until = until
            self._tell()
            self._extended.notify_all()

    def check(self) -> None:
        """Raises TransientError: its end has come, and nobody has put it off."""
        if time.monotonic() < self._until:
            return
        with self._extended:
            held = self._extended.wait_for(lambda: time.monotonic() < self._until, PATIENCE_SECONDS)
        if not held:
            raise TransientError(
                "nothing is written: the warehouse's lease was not renewed in time, and another server may "
                "have taken it. Next: `headrace status` tells what the server does"
            )

    def _tell(self) -> None:
        if self._shared is not None:
            self._shared.value = 2**63 - 1 if math.isinf(self._until) else int(self._until * NANOSECONDS)


PERMIT = Permit()
"""That of this process. Its lease extends it."""
