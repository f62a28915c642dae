"""Resident memory of a whole stack, sampled while it works."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import TracebackType

import psutil

from headrace.errors import HeadraceError

_REFRESH = 6  # samples between two looks at which services there are


class MemorySampler:
    """Keeps the peak of the summed resident sizes. A context manager.

    Pages that processes share, such as PostgreSQL's buffers, count once where the system tells (Linux).

    Args:
        roots: process ids of the services; everything they started is counted with them.
    """

    def __init__(self, roots: Callable[[], Iterable[int]], *, interval: float = 5.0) -> None:
        self.peak = 0
        self._roots, self._interval = roots, interval
        self._known: tuple[int, ...] = ()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory-sampler", daemon=True)

    def __enter__(self) -> MemorySampler:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        samples = 0
        while not self._stopping.wait(self._interval):
            if samples % _REFRESH == 0:
                # Services that start or stop at this moment are seen the next time.
                with suppress(HeadraceError, OSError):
                    self._known = tuple(self._roots())
            samples += 1
            self.peak = max(self.peak, resident_bytes((*self._known, os.getpid())))


def resident_bytes(roots: Iterable[int]) -> int:
    """Of these processes, their supervisors and everything they started, each counted once."""
    found: dict[int, int] = {}
    for root in roots:
        try:
            process = psutil.Process(root)
            parent = process.parent()
            supervisor = (
                [parent] if parent is not None and "supervisord" in " ".join(parent.cmdline()) else []
            )
            family = [process, *process.children(recursive=True), *supervisor]
        except psutil.Error:
            continue
        for member in family:
            try:
                found[member.pid] = _own_bytes(member)
            except psutil.Error:
                continue  # ended between the two calls
    return sum(found.values())


def _own_bytes(process: psutil.Process) -> int:
    """Resident bytes, of shared pages the process's part."""
    return int(process.memory_full_info().pss if psutil.LINUX else process.memory_info().rss)
