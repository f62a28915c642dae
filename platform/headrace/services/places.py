"""Where sockets go, the path of one being limited to about 107 bytes; and who may read a stack's folders."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from contextlib import suppress
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


def keep_private(settings: Settings) -> None:
    """Rows, logs, catalog and topics are for their owner alone, those of an earlier version too.

    What lies in `state` is listed by nobody else and passed through by PostgreSQL, which never runs as root
    and keeps its own folders from everybody.
    """
    folders = [(settings.data, 0o711), (settings.state, 0o711), (settings.logs, 0o700)]
    if isinstance(settings.warehouse, Path):
        folders.append((settings.warehouse, 0o700))
    for folder, mode in folders:
        folder.mkdir(parents=True, exist_ok=True)
        _tighten(folder, mode)
    for entry in settings.state.iterdir():
        if not entry.is_symlink() and not entry.name.startswith("postgres"):
            _tighten(entry, 0o700 if entry.is_dir() else 0o600)


def _tighten(path: Path, mode: int) -> None:
    """Take away what the mode does not allow. What belongs to somebody else is theirs, or gone by now."""
    with suppress(PermissionError, FileNotFoundError):
        now = stat.S_IMODE(path.stat().st_mode)
        if path.stat().st_uid == os.geteuid() and now & ~mode:
            path.chmod(now & mode)


def remove_run_directory(settings: Settings) -> None:
    """Of a stopped stack."""
    place = run_directory(settings)
    if place != settings.state.resolve():
        shutil.rmtree(place, ignore_errors=True)
