"""Where sockets go: the path of a UNIX socket is limited to about 107 bytes."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

from headrace.errors import TerminalError
from headrace.settings import Settings

# The supervisor first binds a temporary name that has its pid added.
LONGEST = 90


def run_directory(settings: Settings) -> Path:
    """The stack's state folder, or a private one in the temporary directory where that path is too long."""
    state = settings.state.resolve()
    if len(os.fsencode(state / "supervisor.sock")) <= LONGEST:
        return state
    digest = hashlib.sha256(os.fsencode(state)).hexdigest()[:12]
    short = Path(tempfile.gettempdir()) / f"headrace-{os.geteuid()}-{digest}"
    short.mkdir(mode=0o700, exist_ok=True)
    found = short.lstat()
    if short.is_symlink() or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise TerminalError(f"{short} belongs to somebody else: remove it, or choose a shorter `data` path")
    return short
