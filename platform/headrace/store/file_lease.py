"""A lease on this machine: an exclusive lock that dies with its process."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from pathlib import Path
from typing import TextIO

from headrace.errors import TerminalError


class FileLease:
    """The exclusive right to write a warehouse.

    Delta on a local file system loses commits with two writing processes, so the second is refused. The
    operating system frees the lock when its holder dies, however it dies.

    Args:
        path: lock file; its content names the holder.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: TextIO | None = None

    def acquire(self) -> None:
        """Raises TerminalError, naming the holder, where another process has it."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = self._path.open("a+", encoding="utf-8")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            file.close()
            raise TerminalError(
                f"the warehouse `{self._path.parent}` is held by another warehouse server: {holder}. "
                "Next: `headrace status`, or `headrace down` to stop it"
            ) from None
        file.seek(0)
        file.truncate()
        json.dump({"pid": os.getpid(), "host": socket.gethostname(), "since": int(time.time())}, file)
        file.flush()
        self._file = file

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
