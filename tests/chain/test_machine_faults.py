"""Disks that take no more and processes that stand still: what is there stays, and all goes on afterwards."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

import psutil
import psycopg
import pytest
from chain_support import eventually
from running_shop import Shop

from headrace.services.programs.postgres import postmaster
from headrace.sources.connect import ConnectClient, ConnectorFile

pytestmark = pytest.mark.long

ORDERS = "stg.orders"


def processes(shop: Shop, service: str) -> list[psutil.Process]:
    """Those of a service, its children too."""
    pid = shop.stack.supervisor.process(service).pid
    assert pid is not None
    own = psutil.Process(pid)
    return [own, *own.children(recursive=True)]


def limit(process: psutil.Process, size: int) -> None:
    """How large a file it may write, set by whom it belongs to: PostgreSQL never runs as root."""
    try:
        user, group = process.uids().real, process.gids().real
    except psutil.NoSuchProcess:
        return  # a connection that was closed meanwhile
    child = os.fork()
    if not child:
        with suppress(OSError):
            if user != os.getuid():
                os.setgroups([])
                os.setgid(group)
                os.setuid(user)
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0 or not process.is_running()


@contextmanager
def full(running: Iterable[psutil.Process]) -> Iterator[None]:
    """No write to a file comes through, as on a full disk. Who has ended by then has no limit any more."""
    found = list(running)
    try:
        for p in found:
            limit(p, 1)
        yield
    finally:
        for p in filter(psutil.Process.is_running, found):
            limit(p, resource.RLIM_INFINITY)


@contextmanager
def standing_still(running: Iterable[psutil.Process]) -> Iterator[None]:
    """Its connections stay open, and nothing comes over them."""
    found = list(running)
    try:
        for p in found:
            os.kill(p.pid, signal.SIGSTOP)
        yield
    finally:
        for p in found:
            os.kill(p.pid, signal.SIGCONT)


def test_a_disk_that_is_full_is_waited_for(shop: Shop) -> None:
    shop.wait_caught_up()
    with shop.load(seed=95) as load:
        server = processes(shop, "warehouse")

        def noticed() -> bool:
            """Some table says so, or the server has ended."""
            if not server[0].is_running():
                return True
            return any("File too large" in (s.last_error or "") for s in shop.status().values())

        with full(server):
            eventually("the warehouse cannot write", noticed)
        shop.wait_answers()
        shop.wait_running()
        shop.wait_advanced(ORDERS, "dws.user_hour", by=2)
        broker = processes(shop, "kafka")
        with full(broker):
            eventually("the broker ends", lambda: not broker[0].is_running())
        shop.wait_advanced(ORDERS, "dws.user_hour", by=2)
        load.raise_if_failed()
    source = postmaster(shop.settings)
    assert source is not None
    with (
        full([source, *source.children(recursive=True)]),
        pytest.raises(psycopg.Error),
        psycopg.connect(shop.dsn) as connection,
    ):
        connection.execute("UPDATE orders SET amount = amount + 1")
    eventually("the source is back", lambda: psycopg.connect(shop.dsn).close() is None)
    with shop.load(seed=96) as load:
        shop.wait_advanced(ORDERS, "dws.user_hour", by=2)
        load.raise_if_failed()
    shop.wait_caught_up()
    shop.verify()
    shop.check_changelogs()


@contextmanager
def impatient(shop: Shop, connect: ConnectClient) -> Iterator[None]:
    """The connector gives Kafka four seconds, Connect's default being two minutes."""
    file = ConnectorFile.read(shop.settings.connectors / "shop.json")
    waits = {"delivery.timeout.ms": "4000", "request.timeout.ms": "3000"}
    config = file.config | {f"producer.override.{name}": value for name, value in waits.items()}
    try:
        with says(shop, "Processing messages", "it is impatient"):
            connect.put_connector(replace(file, config=config))
        yield
    finally:
        with says(shop, "Processing messages", "it is patient again"):
            connect.put_connector(file)


@contextmanager
def says(shop: Shop, text: str, what: str) -> Iterator[None]:
    """Ends once Connect's log has the text, written since it began."""
    log = shop.settings.logs / "connect.log"
    said = log.stat().st_size
    yield
    eventually(what, lambda: text.encode() in log.read_bytes()[said:])


def test_what_stands_still_goes_on(shop: Shop) -> None:
    """Kafka for longer than Connect waits for it, then Connect, the source's sender and the warehouse."""
    shop.wait_caught_up()
    with shop.load(seed=97) as load:
        with ConnectClient(shop.settings.connect_rest) as connect, impatient(shop, connect):
            shop.wait_advanced(ORDERS)
            with standing_still(processes(shop, "kafka")), says(shop, "TimeoutException", "Connect gives up"):
                pass
            shop.wait_advanced(ORDERS, "dws.user_hour", by=2)  # nobody has started the connector again
        source = postmaster(shop.settings)
        assert source is not None
        senders = [p for p in source.children() if "walsender" in " ".join(p.cmdline())]
        for running in (processes(shop, "connect"), senders, processes(shop, "warehouse")):
            assert running
            with standing_still(running):
                changes = load.changes
                eventually("changes that nobody hears of", lambda n=changes: load.changes > n + 100)
            shop.wait_advanced(ORDERS, "dws.user_hour", by=2)
        load.raise_if_failed()
    shop.wait_caught_up()
    shop.verify()
    shop.check_changelogs()
