"""Until when a process may commit, and how its JVM hears of it."""

from __future__ import annotations

import math
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace.errors import TransientError
from headrace.storage import permit as module
from headrace.storage.permit import NANOSECONDS, Permit


def shared(file: Path) -> int:
    found: int
    [found] = struct.unpack("<q", file.read_bytes()[:8])
    return found


def test_who_has_no_lease_is_alone() -> None:
    Permit().check()


def test_a_commit_waits_for_a_lease_that_is_being_renewed() -> None:
    permit = Permit()
    permit.extend(0.0)
    with ThreadPoolExecutor(1) as pool:
        commit = pool.submit(permit.check)
        permit.extend(time.monotonic() + 60)
        commit.result()


def test_its_end_is_told_to_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.0)
    permit, file = Permit(), tmp_path / "permit"
    permit.share(file)
    assert shared(file) == 2**63 - 1
    until = time.monotonic() + 60
    permit.extend(until)
    permit.check()
    assert shared(file) == int(until * NANOSECONDS)
    permit.extend(0.0)
    assert shared(file) == 0
    with pytest.raises(TransientError, match="headrace status"):
        permit.check()
    permit.extend(math.inf)
    permit.check()


def test_a_process_after_it_has_a_file_of_its_own(tmp_path: Path) -> None:
    """The JVM of the one before may read its own to its end."""
    file = tmp_path / "permit"
    first, second = Permit(), Permit()
    first.share(file)
    with file.open("rb") as before:
        second.share(file)
        first.extend(7.0)
        assert struct.unpack("<q", before.read(8)) == (7 * NANOSECONDS,)
    assert shared(file) == 2**63 - 1
