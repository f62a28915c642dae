"""Several warehouse servers: what they are just now, one that stands still, and who has written what."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
from running_shop import Shop

from headrace.store.record.commits import history


def state(shop: Shop) -> str:
    """What its server says of itself, or why it says nothing."""
    try:
        return str(shop.client.health()["state"])
    except Exception as error:
        return str(error)


@contextmanager
def paused(pid: int) -> Iterator[None]:
    """A server and its JVM stand still, and go on at the end."""
    server = psutil.Process(pid)
    processes = [server, *server.children(recursive=True)]
    for process in processes:
        process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            process.send_signal(signal.SIGCONT)


def check_one_writer(shop: Shop) -> None:
    """Of each table: whoever has written a version after another server's is never written after again."""
    for name in shop.project.tables:
        for part in ("changelog", "snapshot"):
            commits = history(shop.path(str(name), part))
            runs = [c.run_id for _, c in commits if c.mode not in ("maintenance", "create")]
            taken = [run for at, run in enumerate(runs) if at == 0 or runs[at - 1] != run]
            assert len(taken) == len(set(taken)), (name, part, taken)
