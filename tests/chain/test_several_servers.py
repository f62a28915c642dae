"""Two sources, a server and a standby for each: killed and paused at random, every table has one writer."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from chain_support import eventually
from running_servers import check_one_writer, outside, paused, refusal, served, serving, state
from running_shop import Shop, command

from benchmarks.data.many import ManyTables
from headrace.demo.background import Background
from headrace.gateway.client import StatementRefused
from headrace.services.scratch import scratch_settings
from headrace.services.stack import Stack
from headrace.settings import Settings
from headrace.store.record.commits import history

pytestmark = pytest.mark.long

TABLES = int(os.environ.get("HEADRACE_SERVERS_TABLES", "20"))
"""Of both sources together."""

ROUNDS = int(os.environ.get("HEADRACE_TAKEOVERS", "2"))
"""Kills and pauses; the first two are one of each, of a source each."""

SEED = 26


class Changes(Background):
    """Inserts, updates and deletes in all captured tables of a source, until left."""

    def __init__(self, dsn: str, many: ManyTables, seed: int) -> None:
        super().__init__(f"changes of {many.source}", f"the load of {many.source}")
        self._connection = psycopg.connect(dsn, autocommit=True)
        self._many = many
        self._chance = random.Random(seed)
        self._next = many.rows + 1_000_000 * seed

    def _work(self) -> None:
        with self._connection as connection:
            while not self._stopping.wait(0.05):
                connection.execute(self._change().encode())

    def _change(self) -> str:
        table, row = self._chance.choice(self._many.chains), self._chance.randint(1, self._many.rows)
        match self._chance.randint(0, 9):
            case 0:
                return f"DELETE FROM {table} WHERE id > {self._many.rows} AND id % 7 = {row % 7}"
            case 1 | 2 | 3:
                self._next += 1
                values = f"SELECT {self._next}, user_id, 5, now()"
                return f"INSERT INTO {table} {values} FROM {table} WHERE id = {row}"
        return f"UPDATE {table} SET amount = amount + 1 WHERE id = {row}"


@dataclass
class Share:
    """One source, and the two servers that may serve it.

    Args:
        dsn: of its database.
    """

    many: ManyTables
    dsn: str
    servers: tuple[Shop, Shop]

    @property
    def watched(self) -> str:
        return f"dws.{self.many.chains[0]}_0"

    def serving(self) -> Shop:
        return serving(self.servers)

    def wait_standby(self) -> None:
        """One serves, the other one stands by."""
        wanted = ["ready", "standby"]
        eventually("the other one stands by", lambda: sorted(map(state, self.servers)) == wanted)

    def newest(self) -> tuple[str, int]:
        """Who has written the watched table last, and its version."""
        place = self.servers[0].path(self.watched, "changelog")
        commit = next(c for _, c in history(place) if c.mode == "stream")
        return commit.run_id, commit.version

    def wait_advanced(self, by: int = 2) -> None:
        _, version = self.newest()
        eventually(f"{self.watched} advances", lambda: self.newest()[1] >= version + by)

    def wait_taken_over(self, run: str) -> float:
        """Seconds until another server than of this run has committed."""
        begun = time.monotonic()
        eventually("another one commits", lambda: self.newest()[0] != run)
        return time.monotonic() - begun

    def check(self) -> None:
        """Everything has arrived, and every table equals its SQL and its source."""
        shop = self.serving()
        counts = {}
        with psycopg.connect(self.dsn) as connection:
            for name in self.many.chains:
                [(counts[f"stg.{name}"],)] = connection.execute(f"SELECT count(*) FROM {name}".encode())

        def behind() -> dict[str, Any]:
            return {
                s.table: (s.rows, s.lag)
                for s in shop.client.status()
                if s.lag or s.rows != counts.get(s.table, s.rows)
            }

        eventually("all have caught up", lambda: not behind() or None)
        shop.verify()
        shop.check_changelogs()
        check_one_writer(shop)


@pytest.fixture(scope="module")
def shares(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Share, Share]]:
    """Four servers; the first has PostgreSQL, Kafka and Connect beside it."""
    folder = tmp_path_factory.mktemp("servers")
    project = folder / "project"
    freshness = ("'10' SECOND", "'30' SECOND")
    left = ManyTables(TABLES // 2, source="left", freshness=freshness)
    right = ManyTables(TABLES // 2, source="right", database="right", freshness=freshness)
    for many in (left, right):
        many.write(project)
    shared: dict[str, Any] = {
        "warehouse_url": f"file://{folder / 'warehouse'}",
        "driver_memory": "1g",
        "standby": True,
    }
    with ExitStack() as stack:
        first = stack.enter_context(scratch_settings(project, serves="left", **shared))
        services = Stack(first)
        stack.callback(services.down)
        services.up(only=["connect"])
        with psycopg.connect(first.postgres_dsn("postgres"), autocommit=True) as connection:
            for name in ("right", "headrace_catalog"):
                connection.execute(f'CREATE DATABASE "{name}"'.encode())
        dsns = first.postgres_dsn(), first.postgres_dsn("right")
        left.create(dsns[0])
        right.create(dsns[1])
        catalog = first.postgres_dsn("headrace_catalog")
        others = [
            stack.enter_context(scratch_settings(project, serves=serves, **shared, **outside(first, catalog)))
            for serves in ("left", "right", "right")
        ]
        one = served(first.model_copy(update={"catalog_url": catalog}), stack)
        three = served(others[1], stack)
        for shop in (one, three):
            shop.stack.register_connectors()
        two, four = served(others[0], stack), served(others[2], stack)
        yield Share(left, dsns[0], (one, two)), Share(right, dsns[1], (three, four))


def states(shares: Sequence[Share]) -> list[list[str]]:
    return [[state(shop) for shop in share.servers] for share in shares]


def test_each_has_the_tables_of_its_source_and_knows_who_has_the_others(shares: tuple[Share, Share]) -> None:
    left, right = shares
    assert states(shares) == [["ready", "standby"]] * 2
    shop = left.servers[0]
    for share in shares:
        share.check()
        assert len(share.serving().client.status()) == TABLES // 2
    told = command(shop, "status", code=1).stdout  # its Dagster was not started
    lines = [line.split() for line in told.splitlines() if line.startswith(("left ", "right "))]
    serving = [[words[0], words[words.index("process") + 1]] for words in lines]
    assert serving == [[s.many.source, str(s.servers[0].pid)] for s in shares]
    with pytest.raises(StatementRefused, match="comes of `right`, which another server serves"):
        shop.client.submit(f"VERIFY {right.watched}")
    planned = {table["table"] for table in shop.client.plan().model_dump()["tables"]}
    assert planned == {str(name) for name in shop.project.tables} and len(planned) == TABLES // 2


def test_a_server_of_what_others_serve_is_refused(shares: tuple[Share, Share]) -> None:
    settings = shares[0].servers[1].settings
    for serves in ("left, right", ""):
        with scratch_settings(settings.project, **_as(settings, serves)) as other:
            assert "is held by another warehouse server: process " in refusal(other)
    assert states(shares) == [["ready", "standby"]] * 2


def _as(settings: Settings, serves: str) -> dict[str, Any]:
    """These settings, but for data and ports, of a server that does not stand by."""
    names = [
        n for n in type(settings).model_fields if not n.endswith("_port") and n not in ("project", "data")
    ]
    return {name: getattr(settings, name) for name in names} | {"standby": False, "serves": serves}


def test_each_is_followed_and_the_others_go_on(shares: tuple[Share, Share]) -> None:
    """Nothing is lost, no table has two writers at a time, and who wakes writes nothing more."""
    seed = random.Random(SEED)
    for number in range(ROUNDS):
        kill = number == 0 if number < 2 else seed.random() < 0.5
        share, other = shares if (number if number < 2 else seed.randint(0, 1)) % 2 == 0 else shares[::-1]
        before = share.serving()
        pid, run = before.pid, share.newest()[0]
        assert pid is not None
        share.wait_standby()
        with ExitStack() as stack:
            for each, part in enumerate(shares):
                stack.enter_context(Changes(part.dsn, part.many, seed=1 + 2 * number + each))
            share.wait_advanced()
            if kill:
                os.kill(pid, signal.SIGKILL)
                seconds = share.wait_taken_over(run)
            else:
                with paused(pid):
                    other.wait_advanced()
                    seconds = share.wait_taken_over(run)
                before.wait_replaced(pid)
            print(f"{share.many.source} {'killed' if kill else 'paused'}: followed after {seconds:.1f} s")
            other.wait_advanced()
            share.serving()
            share.wait_advanced()
        for each in shares:
            each.check()
