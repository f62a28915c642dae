"""Processes: the processor time of them and everything below them, and those of headrace's command line."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

import psutil

from headrace.settings import Settings


def busy(roots: Iterable[int]) -> float:
    """Seconds of processor time that they have used."""
    total = 0.0
    for root in roots:
        with suppress(psutil.Error):
            process = psutil.Process(root)
            for member in [process, *process.children(recursive=True)]:
                with suppress(psutil.Error):
                    total += sum(member.cpu_times()[:2])
    return total


def cores(roots: Mapping[str, int], seconds: float) -> dict[str, float]:
    """Processors that each keeps busy in that time."""
    before = {name: busy([pid]) for name, pid in roots.items()}
    begun = time.monotonic()
    time.sleep(seconds)
    elapsed = time.monotonic() - begun
    return {name: (busy([pid]) - before[name]) / elapsed for name, pid in roots.items()}


def command(words: Sequence[str], settings: Settings) -> subprocess.CompletedProcess[str]:
    """`headrace …` as a process of its own, in that project."""
    return subprocess.run(
        [sys.executable, "-m", "headrace.cli.main", *words],
        env=os.environ | settings.variables(),
        cwd=settings.project,
        capture_output=True,
        text=True,
        check=False,
    )
