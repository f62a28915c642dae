"""One writer per warehouse: who holds the lease, and that it is free again when its holder is gone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.errors import TerminalError
from headrace.store.file_lease import FileLease

HOLD = """
import sys
from pathlib import Path
from headrace.store.file_lease import FileLease
lease = FileLease(Path(sys.argv[1]))
lease.acquire()
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_writer_is_refused_and_told_who_holds_it(tmp_path: Path) -> None:
    first, second = FileLease(tmp_path / "lease"), FileLease(tmp_path / "lease")
    first.acquire()
    with pytest.raises(TerminalError, match=f'"pid": {os.getpid()}.*headrace down'):
        second.acquire()
    first.release()
    second.acquire()
    second.release()


def test_a_writer_that_is_killed_holds_nothing_any_more(tmp_path: Path) -> None:
    path = tmp_path / "lease"
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(TerminalError, match=f'"pid": {other.pid}'):
            FileLease(path).acquire()
        other.kill()
        other.wait()
    free = FileLease(path)
    free.acquire()
    free.release()
