"""The processes of one stack, found by a mark in their environment and so never confused with others'.

A recorded pid may belong to somebody else by now, and a killed supervisor records nothing; the mark is
inherited by everything a service starts, the JVM under the warehouse server included.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import psutil

STACK = "HEADRACE_STACK"
SERVICE = "HEADRACE_SERVICE"


def marked(state: Path, service: str | None = None) -> list[psutil.Process]:
    """Live processes of the stack whose state is there, without this one and its ancestors.

    Args:
        service: only this service's.
    """
    mine = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    found = []
    for process in psutil.process_iter():
        if process.pid in mine:
            continue
        # Others' environments cannot be read, and processes end while one looks.
        with contextlib.suppress(psutil.Error, OSError):
            environment = process.environ()
            if environment.get(STACK) != str(state) or process.status() == psutil.STATUS_ZOMBIE:
                continue
            if service is None or environment.get(SERVICE) == service:
                found.append(process)
    return found


def end(processes: list[psutil.Process], *, grace: float) -> list[psutil.Process]:
    """Ask them to end, after `grace` seconds make them. Returns those that had to be made."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.terminate()
    _, alive = psutil.wait_procs(processes, timeout=grace)
    for process in alive:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(alive, timeout=10)
    return alive


def resident(pid: int) -> int:
    """Bytes that a process and its descendants hold, memory they share counted once where it can be told."""
    total = 0
    with contextlib.suppress(psutil.Error):
        root = psutil.Process(pid)
        for process in [root, *root.children(recursive=True)]:
            with contextlib.suppress(psutil.Error):
                memory = process.memory_full_info()
                total += getattr(memory, "pss", 0) or memory.rss
    return total


def listener(port: int) -> str | None:
    """Who listens on that TCP port, for an error message. None where it cannot be told."""
    with contextlib.suppress(psutil.Error, OSError):
        for connection in psutil.net_connections("tcp"):
            local = connection.laddr
            if connection.status == psutil.CONN_LISTEN and local and local.port == port and connection.pid:
                return f"`{psutil.Process(connection.pid).name()}` (pid {connection.pid})"
    return None
