"""Several warehouse servers: what they are just now, one that stands still, and who has written what."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import psutil
from chain_support import eventually
from running_shop import Shop

from headrace.declared import load_own
from headrace.gateway.client import GatewayClient
from headrace.services.stack import Stack
from headrace.settings import Settings
from headrace.sources.stream.broker import Broker
from headrace.store.record.commits import history


def served(settings: Settings, stack: ExitStack) -> Shop:
    """A warehouse server with these settings, and nothing else of a stack; `stack` ends it."""
    services = Stack(settings)
    stack.callback(services.down)
    services.up(only=["warehouse"])
    client = stack.enter_context(GatewayClient(settings))
    return Shop(services, client, load_own(settings))


def outside(first: Settings, catalog_url: str) -> dict[str, Any]:
    """Settings of a server on another machine, whose database, Kafka and Connect are those of `first`."""
    return {
        "catalog_url": catalog_url,
        "postgres_url": first.postgres_dsn(),
        "connect_url": first.connect_rest,
        "kafka_bootstrap_servers": first.kafka_bootstrap,
        **Broker.of(first).security.settings(),
    }


def refusal(settings: Settings) -> str:
    """Why a server that is started with these settings gives up."""
    server = subprocess.Popen(
        [sys.executable, "-m", "headrace.server", "--project", str(settings.project)],
        env=os.environ | settings.variables(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with GatewayClient(settings) as client:
            health = eventually("it gives up", lambda: (h := client.health())["state"] == "failed" and h)
    finally:
        server.terminate()
        server.wait(30)
    return str(health["error"])


def serving(shops: Sequence[Shop]) -> Shop:
    """The one that serves, once there is one and its tables run."""
    found: list[Shop] = []

    def serves() -> bool:
        found[:] = [shop for shop in shops if state(shop) == "ready"]
        return len(found) == 1 and {s.state for s in found[0].client.status()} == {"RUNNING"}

    eventually("one of them serves", serves)
    return found[0]


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
