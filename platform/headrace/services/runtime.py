"""The JVM artifacts of `deploy/ivy.xml`: fetched once by its lock, or found by the Ivy that PySpark ships."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.errors import TerminalError, TransientError
from headrace.java import find_java
from headrace.services import trust
from headrace.services.artifacts import FILE, Lock, fetch, locked
from headrace.settings import checkout

FLAT = "[conf]/[artifact]-[revision](-[classifier]).[ext]"
AS_IN_A_REPOSITORY = "[conf]/[orgPath]/[module]/[revision]/[artifact]-[revision](-[classifier]).[ext]"
"""Where Ivy puts what it retrieves."""

FETCHING = "fetching JVM artifacts"

RELOCK = "python -m headrace.services.relock"


def definition() -> Path:
    """The folder with `ivy.xml`, its settings and its lock: the repository's, or the copy in a wheel."""
    root = checkout()
    return root / "deploy" if root is not None else Path(__file__).parent / "ivy"


def is_current(home: Path, folder: Path | None = None) -> bool:
    """Whether `home` holds exactly what `ivy.xml` asks for."""
    stamp = home / "jars" / "stamp"
    return stamp.is_file() and stamp.read_text() == digest(folder or definition())


def ensure(
    home: Path, on_progress: Callable[[str], None] = lambda message: None, folder: Path | None = None
) -> None:
    """Retrieve the artifacts into `home/jars/CONFIGURATION` unless they are there already.

    Safe to call from several processes: one retrieves, the others wait for it.

    Args:
        folder: with the `ivy.xml` that names them and `ivysettings.xml`. Default: the runtime's own, whose
            configurations are `spark`, `kafka` and `plugins`.
    """
    folder = folder or definition()
    if is_current(home, folder):
        return
    home.mkdir(parents=True, exist_ok=True)
    with _lock(home / "jars.lock"):
        if is_current(home, folder):
            return
        with tempfile.TemporaryDirectory(prefix="retrieving-", dir=home) as scratch:
            staged = Path(scratch) / "jars"
            lock = Lock.read(folder / FILE)
            if lock is not None and lock.made_for == digest(folder):
                on_progress(FETCHING)
                fetch(lock.artifacts, staged, lambda done: on_progress(f"{FETCHING}: {done}"))
            else:
                resolve(folder, Path(scratch), staged, FLAT, on_progress)
            for archive in sorted((staged / "plugins").glob("*.tar.gz")):
                with tarfile.open(archive) as tar:
                    # 3.11.0 to 3.11.3 know no filter.
                    if hasattr(tarfile, "data_filter"):
                        tar.extraction_filter = tarfile.data_filter
                    tar.extractall(staged / "plugins")
                archive.unlink()
            (staged / "stamp").write_text(digest(folder))
            if (home / "jars").exists():
                shutil.rmtree(home / "jars")
            staged.rename(home / "jars")


def lock(folder: Path, on_progress: Callable[[str], None]) -> int:
    """Resolve a definition by Ivy and write down what it takes. Returns the number of files."""
    with tempfile.TemporaryDirectory(prefix="headrace-") as scratch:
        staged = Path(scratch) / "log" / "jars"
        staged.parent.mkdir()
        resolve(folder, staged.parent, staged, AS_IN_A_REPOSITORY, on_progress)
        found = locked(staged, digest(folder))
    found.write(
        folder / FILE, f"What ivy.xml resolves to. Made by `{RELOCK}`, for an ivy.xml of this digest:"
    )
    return len(found.artifacts)


def resolve(
    folder: Path, scratch: Path, staged: Path, pattern: str, on_progress: Callable[[str], None]
) -> None:
    """Let Ivy find what a definition asks for, and put it below `staged` by a pattern of its.

    Args:
        scratch: for Ivy's own files.
    Raises:
        TransientError: with the last lines of what Ivy said.
    """
    java = find_java()
    ivy = folder / "ivy.xml"
    arguments = ["-settings", folder / "ivysettings.xml", "-ivy", ivy]
    arguments += ["-cache", scratch / "cache", "-retrieve", f"{staged}/{pattern}"]
    options = trust.options(scratch) if java.packaged else []
    command = [java.binary, *options, "-jar", _program(), *arguments, "-types", "jar", "tar.gz", "bundle"]
    log = scratch.parent / "ivy.log"
    artifacts = 0
    on_progress(f"retrieving JVM artifacts ({', '.join(_configurations(ivy))})")
    with log.open("w") as out:
        process = subprocess.Popen(
            [str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert process.stdout is not None
        for line in process.stdout:
            out.write(line)
            if "SUCCESSFUL" in line:
                artifacts += 1
                on_progress(f"retrieving JVM artifacts: {artifacts}")
    # Ivy answers 0 for some failed downloads too.
    complete = all(any((staged / group).glob("*")) for group in _configurations(ivy))
    if process.wait() != 0 or not complete:
        tail = "\n  ".join(log.read_text().splitlines()[-15:])
        raise TransientError(
            f"the JVM artifacts of {ivy} could not be retrieved "
            f"(whole log: {log}):\n  {tail}\ncheck the network, then run the command again"
        )


def _program() -> Path:
    # The package is found, not imported: importing PySpark costs a second.
    spec = importlib.util.find_spec("pyspark")
    for place in spec.submodule_search_locations or [] if spec else []:
        for jar in sorted(Path(place, "jars").glob("ivy-*.jar")):
            return jar
    raise TerminalError("PySpark's Ivy is missing: run `./headrace setup`")


def _configurations(ivy: Path) -> list[str]:
    return re.findall(r'<conf name="(\w+)"', ivy.read_text())


def digest(folder: Path) -> str:
    """SHA-256 of a definition: that for which its lock was made."""
    texts = ((folder / name).read_bytes() for name in ("ivy.xml", "ivysettings.xml"))
    return hashlib.sha256(b"".join(texts)).hexdigest()


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
