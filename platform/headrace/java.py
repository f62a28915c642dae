"""Which Java runs the JVM services."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from headrace.errors import TerminalError

OLDEST = 17


@dataclass(frozen=True)
class Java:
    binary: Path
    home: Path
    version: int


def find_java() -> Java:
    """`$JAVA_HOME`'s Java, else the one on the path. Raises TerminalError naming what to install."""
    home = os.environ.get("JAVA_HOME")
    binary = shutil.which(Path(home) / "bin" / "java") if home else shutil.which("java")
    where = f"`JAVA_HOME={home}`" if home else "the PATH"
    if binary is None:
        raise TerminalError(f"no Java in {where}: {_advice()}")
    try:
        shown = _shown(binary, Path(binary).stat().st_mtime_ns)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TerminalError(f"`{binary}` does not run ({error}): {_advice()}") from None
    version = re.search(r"java\.specification\.version = (?:1\.)?(\d+)", shown)
    java_home = re.search(r"java\.home = (.+)", shown)
    if version is None or java_home is None:
        raise TerminalError(f"`{binary}` does not say its version: {_advice()}")
    if int(version[1]) < OLDEST:
        raise TerminalError(f"`{binary}` is Java {version[1]}: {_advice()}")
    return Java(Path(binary), Path(java_home[1].strip()), int(version[1]))


@cache
def _shown(binary: str, changed: int) -> str:
    """What this Java says of itself: a start asks several times, and each answer takes a JVM.

    Args:
        changed: when the file was written; another Java may take its place.
    """
    command = [binary, "-XshowSettings:properties", "-version"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60).stderr


def _advice() -> str:
    return (
        f"install Java {OLDEST} or newer (Debian, Ubuntu: apt install openjdk-17-jre-headless; "
        "macOS: brew install openjdk@17) or point JAVA_HOME at one, then run the command again"
    )
