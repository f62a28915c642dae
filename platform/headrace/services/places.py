"""Where sockets go: the path of a UNIX socket is limited to about 107 bytes."""

from __future__ import annotations

import hashlib
import os
import shutil
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
    return Path(tempfile.gettempdir()) / f"headrace-{os.geteuid()}-{digest}"


def make_run_directory(settings: Settings) -> Path:
    """Create it where it is missing. Raises TerminalError where others could put their sockets there."""
    place = run_directory(settings)
    if place == settings.state.resolve():
        place.mkdir(parents=True, exist_ok=True)
        return place
    place.mkdir(mode=0o700, exist_ok=True)
    found = place.lstat()
    if place.is_symlink() or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise TerminalError(f"{place} belongs to somebody else: remove it, or choose a shorter `data` path")
    return place


def remove_run_directory(settings: Settings) -> None:
    """Of a stopped stack."""
    place = run_directory(settings)
    if place != settings.state.resolve():
        shutil.rmtree(place, ignore_errors=True)
