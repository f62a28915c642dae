"""Ahead-of-time caches of JVMs: their classes, linked once, and which methods are hot.

JEP 483, 514 and 515, so they take Java 25; an older one starts without. Each is made when a checkout is
set up, by a training run, and again where the stack starts with another Java or other jars. The JVM checks
itself that a cache fits it and its class path, and else starts without.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.java import find_java

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.settings import Settings

OLDEST = 25
"""The Java that makes a cache in one run, with the profiles of its methods."""

QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")
"""The JVM warns on stdout of each class that a cache cannot hold, and of a cache that does not fit."""


@dataclass(frozen=True)
class AotCache:
    """The cache of one program for some jars and this Java, there or not.

    Args:
        program: begins the name of its file.
    """

    path: Path
    program: str

    @classmethod
    def of(cls, settings: Settings, program: str, folders: Iterable[Path]) -> AotCache:
        """
        Args:
            folders: where its jars lie.
        """
        java = find_java().binary.resolve()
        parts = [str(java), str(java.stat().st_mtime_ns)]
        for folder in folders:
            parts += [
                str(folder),
                *(f"{j.name} {j.stat().st_mtime_ns}" for j in sorted(folder.glob("*.jar"))),
            ]
        name = f"{program}-{digest('|'.join(parts))}.aot"
        return cls(settings.home / "classes" / name, program)

    @property
    def missing(self) -> bool:
        """Whether it is not there, and this Java can make it."""
        return not self.path.is_file() and find_java().version >= OLDEST

    @property
    def log(self) -> Path:
        """What the JVM that made it, or failed to, has printed."""
        return self.path.with_suffix(".log")

    def reading(self) -> list[str]:
        """Options for a JVM that reads it; none where it is not there."""
        return [f"-XX:AOTCache={self.path}", *QUIET] if self.path.is_file() else []

    @contextmanager
    def making(self) -> Iterator[Path]:
        """Where a training run shall write it, in an empty folder; what is there then becomes the cache."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="making-", dir=self.path.parent) as folder:
            made = Path(folder) / self.path.name
            yield made
            if made.is_file():
                # Those of other checkouts that share this home begin otherwise.
                for old in self.path.parent.glob(f"{self.program}-*"):
                    if old.stem != self.path.stem:
                        old.unlink()
                made.rename(self.path)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def recording(target: Path) -> list[str]:
    """Options for the JVM of a training run; at its end another one writes the cache."""
    return [f"-XX:AOTCacheOutput={target}", *QUIET]


def renew(
    caches: Collection[AotCache], module: str, told: str, settings: Settings, report: Callable[[str], None]
) -> None:
    """Make caches, in a process of their own, where one is missing for this Java and these jars.

    Where another process makes them now, it is waited for. A set-up that could not make one is not repeated.

    Args:
        module: makes them when it is run.
        told: what `report` hears when it begins.
    """
    if not any(cache.missing for cache in caches):
        return
    folder = settings.home / "classes"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{module}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not any(cache.missing and not cache.log.is_file() for cache in caches):
            return
        report(told)
        subprocess.run(
            [sys.executable, "-m", module, "--quiet"],
            env=os.environ | {"HEADRACE_HOME": str(settings.home)},
            cwd=settings.project,
            check=False,
        )


def make(
    caches: Sequence[AotCache], train: Callable[[], None], program: str, told: str, *, quiet: bool
) -> None:
    """Make caches by one training run where one is missing, if this Java can.

    They are for speed alone: failing is told on stderr and forgiven.

    Args:
        train: the training run; what it and its JVMs print goes to the log of the first cache.
        program: what starts without them where it fails.
        told: what stderr hears when it begins.
        quiet: the caller has said that.
    """
    if not any(cache.missing for cache in caches):
        return
    if not quiet:
        print(f"headrace: {told}", file=sys.stderr, flush=True)
    for cache in caches:
        cache.log.parent.mkdir(parents=True, exist_ok=True)
        cache.log.touch()
    log = caches[0].log
    try:
        with _output_to(log):
            train()
    except Exception as error:
        why = str(error).strip().split("\n")[0]
        print(
            f"headrace: {program} will start without an ahead-of-time cache: {why} ({log})",
            file=sys.stderr,
        )


@contextmanager
def _output_to(log: Path) -> Iterator[None]:
    """Everything that this process and its JVM print goes to a file."""
    kept = os.dup(1), os.dup(2)
    with log.open("wb") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
        try:
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for place, old in enumerate(kept, 1):
                os.dup2(old, place)
                os.close(old)
