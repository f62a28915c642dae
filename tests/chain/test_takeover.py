"""Two servers of one warehouse: one serves, the other takes over once that is dead or silent."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from chain_support import eventually
from running_servers import check_one_writer, outside, paused, served, serving, state
from running_shop import Shop, command, copy_project

from collector import Collector, collecting
from headrace.demo.shop import create_shop
from headrace.services.scratch import scratch_settings
from headrace.services.stack import Stack
from headrace.settings import Settings
from headrace.store.record.commits import history

pytestmark = pytest.mark.long

TABLE = "dws.user_hour"
ROUNDS = int(os.environ.get("HEADRACE_TAKEOVERS", "2"))
"""Kills and pauses; the first two are one of each."""


@dataclass
class Pair:
    """
    Args:
        shops: the same warehouse by either server.
        collector: of the second one's traces.
    """

    shops: tuple[Shop, Shop]
    collector: Collector

    def serving(self) -> Shop:
        return serving(self.shops)

    def other(self, shop: Shop) -> Shop:
        return next(other for other in self.shops if other is not shop)


def wait_standby(shop: Shop) -> None:
    eventually("the other one stands by", lambda: state(shop) == "standby")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """The first with database, Kafka and Connect; the second, as on another machine, with a server alone."""
    folder = tmp_path_factory.mktemp("pair")
    shared: dict[str, Any] = {
        "warehouse_url": f"file://{folder / 'warehouse'}",
        "driver_memory": "1g",
        "standby": True,
    }
    with ExitStack() as stack:
        collector = stack.enter_context(collecting())
        first = stack.enter_context(project(folder / "first", **shared))
        services = Stack(first)
        stack.callback(services.down)
        services.up(only=["connect"])
        create_shop(first.postgres_dsn(), seed=31, orders=300, users=60, products=25, words=100)
        with psycopg.connect(first.postgres_dsn("postgres"), autocommit=True) as connection:
            connection.execute("CREATE DATABASE headrace_catalog")
        catalog = first.postgres_dsn("headrace_catalog")
        one = served(first.model_copy(update={"catalog_url": catalog}), stack)
        one.stack.register_connectors()
        one.wait_caught_up()
        own = {"log_format": "json", "otlp_endpoint": collector.url}
        second = stack.enter_context(project(folder / "second", **shared, **own, **outside(first, catalog)))
        two = served(second, stack)
        yield Pair((one, two), collector)


@contextmanager
def project(folder: Path, **settings: Any) -> Iterator[Settings]:
    folder.mkdir()
    copy_project(folder)
    with scratch_settings(folder, **settings) as scratch:
        yield scratch


def check(shop: Shop) -> None:
    shop.check_against_postgres()
    shop.verify()
    shop.check_changelogs()
    check_one_writer(shop)


def test_the_second_one_stands_by(pair: Pair) -> None:
    first, second = pair.shops
    assert state(first) == "ready" and state(second) == "standby"
    told = command(second, "status", code=1).stdout  # its Dagster was not started
    assert f"stands by: process {first.pid} of " in told
    assert healthy(second) and not healthy(second, "--serving") and healthy(first, "--serving")
    refused = command(second, "sql", f"SELECT * FROM {TABLE}", code=3)
    assert f"stands by for process {first.pid} of " in refused.stderr


def test_dead_and_silent_servers_are_followed(pair: Pair) -> None:
    """By itself; nothing is lost, and one that wakes writes nothing more."""
    seed = random.Random(25)
    for number in range(ROUNDS):
        kill = number == 0 if number < 2 else seed.random() < 0.5
        before = pair.serving()
        pid, after = before.pid, pair.other(before)
        assert pid is not None
        wait_standby(after)
        with before.load(seed=200 + number) as load:
            before.wait_advanced(TABLE, by=2)
            version = before.status()[TABLE].version
            if kill:
                os.kill(pid, signal.SIGKILL)
                seconds = takes_over(pair, after, version)
            else:
                with paused(pid):
                    seconds = takes_over(pair, after, version)
                before.wait_replaced(pid)
            print(f"{'killed' if kill else 'paused'}: the other one had a commit after {seconds:.1f} s")
            serving = pair.serving()
            serving.wait_advanced(TABLE, by=2)
            load.raise_if_failed()
        check(serving)


def healthy(shop: Shop, *arguments: str) -> bool:
    """As Kubernetes asks."""
    done = subprocess.run(
        [sys.executable, "-m", "headrace.services.health", "warehouse", *arguments],
        env=os.environ | shop.settings.variables(),
        cwd=shop.settings.project,
        capture_output=True,
        check=False,
    )
    return done.returncode == 0


def takes_over(pair: Pair, after: Shop, version: int) -> float:
    """Seconds until the table has a commit of another server than before.

    Of a killed server the successor on its machine may be the faster one.
    """
    began = time.monotonic()
    place = after.path(TABLE, "changelog")
    run = next(c.run_id for _, c in history(place) if c.mode == "stream")

    def goes_on() -> bool:
        newest = next(c for _, c in history(place) if c.mode == "stream")
        return newest.run_id != run and newest.version > version

    eventually("another one commits", goes_on)
    return time.monotonic() - began


def test_the_log_tells_of_it_as_json(pair: Pair) -> None:
    log = (pair.shops[1].settings.logs / "warehouse.log").read_text()
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    told = [line for line in lines if "tables are taken over" in line["message"]]
    assert told and told[0]["logger"] == "headrace.engine.warehouse.lifecycle"
    assert not [line for line in log.splitlines() if line.startswith("20")]  # none as text


def test_micro_batches_are_traced_to_their_tables(pair: Pair) -> None:
    eventually("a trace has come", lambda: f"refresh {TABLE}" in {s.name for s in pair.collector.spans})
    refresh = next(span for span in pair.collector.spans if span.name == f"refresh {TABLE}")
    roots = {span.span_id: span for span in pair.collector.spans if span.name == "micro-batch"}
    root = roots[refresh.parent_span_id]
    assert root.start_time_unix_nano < refresh.start_time_unix_nano < root.end_time_unix_nano
    told = {a.key: a.value for a in refresh.attributes}
    assert told["headrace.table"].string_value == TABLE and told["headrace.version"].int_value > 0


def test_one_that_ends_by_itself_is_followed_at_once(pair: Pair) -> None:
    before = pair.serving()
    after = pair.other(before)
    wait_standby(after)
    before.stack.supervisor.stop("warehouse")
    assert pair.serving() is after
    before.stack.up(only=["warehouse"])
    assert state(before) == "standby"
    after.verify(TABLE)
