"""The processor time of processes and everything below them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import psutil


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
