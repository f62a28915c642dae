"""Which Java is taken, and what becomes of one that is killed while it is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import TerminalError
from headrace.java import find_java

ANSWER = "java.specification.version = 21\\n    java.home = /opt/java"


def java(home: Path, text: str) -> Path:
    binary = home / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text(f"#!/bin/sh\n{text}\n")
    binary.chmod(0o755)
    return binary


def test_one_that_is_killed_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = tmp_path / "asked"
    binary = java(tmp_path, f"[ -e {asked} ] || {{ touch {asked}; kill -9 $$; }}\nprintf '{ANSWER}' >&2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    found = find_java()
    assert (found.binary, found.home, found.version) == (binary, Path("/opt/java"), 21)
    assert asked.exists()


def test_one_that_says_nothing_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java(tmp_path, "exit 1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(TerminalError, match="does not say its version"):
        find_java()
