"""The JVM's own compilers: when the optimizing one is asked, and what both used of the processors."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psutil

OPTIMIZING, QUICK = "C2 CompilerThre", "C1 CompilerThre"
"""As Linux names the threads: the first fifteen characters."""

LATER = (
    "-XX:Tier4InvocationThreshold=20000",
    "-XX:Tier4MinInvocationThreshold=2400",
    "-XX:Tier4CompileThreshold=60000",
    "-XX:Tier4BackEdgeThreshold=160000",
)
"""Four times Java's own thresholds. A flow calls so many methods a few thousand times that it takes ten
minutes to optimize them all, and hardly one is worth it."""

# Threads that neither come nor go: each is known, and so is all that it used.
OPTIONS = ("-XX:-UseDynamicNumberOfCompilerThreads", *LATER)
"""Of a JVM that runs flows."""


def processor_seconds(pid: int) -> float | None:
    """What the compilers' threads used of the processors so far. None where it cannot be known.

    Only Linux tells the names of another process's threads.
    """
    threads = [t for t in psutil.Process(pid).threads() if _name(pid, t.id) in (OPTIMIZING, QUICK)]
    return sum(t.user_time + t.system_time for t in threads) if threads else None


def _name(pid: int, thread: int) -> str:
    with suppress(OSError):  # it ended meanwhile
        return Path(f"/proc/{pid}/task/{thread}/comm").read_text().rstrip("\n")
    return ""
