"""What processes and everything below them use."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

import psutil


def _over(roots: Iterable[int], measure: Callable[[psutil.Process], float]) -> float:
    total = 0.0
    for root in roots:
        with suppress(psutil.Error):
            process = psutil.Process(root)
            for member in [process, *process.children(recursive=True)]:
                with suppress(psutil.Error):
                    total += measure(member)
    return total


def busy(roots: Iterable[int]) -> float:
    """Seconds of processor time that they have used."""
    return _over(roots, lambda p: sum(p.cpu_times()[:2]))


def resident(roots: Iterable[int]) -> int:
    """Their resident size, bytes."""
    return int(_over(roots, lambda p: p.memory_info().rss))
