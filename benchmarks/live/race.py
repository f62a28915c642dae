"""One contender after the other over the same workload: its snapshot, its freshness, its throughput."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

from benchmarks.live.contender import DWS, TABLES, Contender, Source, Tell
from benchmarks.live.headrace import Headrace
from benchmarks.live.orders_database import STRIDE, OrdersDatabase
from benchmarks.live.processes import busy
from headrace.demo.memory import resident_bytes
from headrace.errors import TransientError
from headrace.percentile import percentile
from headrace.services.stack import Stack
from headrace.sources.connect import ConnectClient, ConnectorFile
from headrace.sources.registration import create_topics
from headrace.sources.stream.broker import Broker

BATCH, INTERVAL = 20, 0.5
"""Orders of one small update, and seconds in which one is made: 40 changes a second."""

MEASURED, BESIDE, WARMING = 1, 251, 501
"""First orders, within their thousand, of the updates that are measured, those beside backfills, and those
before."""

POLL_SECONDS = 0.25
TIMEOUT = 1200.0
LATE = 120.0
"""Seconds after which a contender that seemed done is held to what it has: it may only have paused."""


@dataclass
class Score:
    """What one contender did. Seconds; None where it was not measured.

    Args:
        snapshot: by table, from the connector's registration to the commit that completes it.
        delays: from the commit's acknowledgement to the commit of `dws_user_hour` that shows the change.
        beside: the same while backfills ran, one after the other; `backfills` is what each took.
        missing: changed groups that never showed.
        bulk: by table, from the commit of an update of every order, of each round.
        updated: orders of each such round.
        wrong: tables that differ from PostgreSQL's own result, by when they were compared.
        memory: largest resident size, bytes.
        cores: processors it kept busy while freshness was measured.
    """

    name: str
    snapshot: dict[str, float] = field(default_factory=dict)
    delays: list[float] = field(default_factory=list)
    beside: list[float] = field(default_factory=list)
    backfills: list[float] = field(default_factory=list)
    missing: int = 0
    bulk: list[dict[str, float]] = field(default_factory=list)
    updated: int = 0
    wrong: dict[str, list[str]] = field(default_factory=dict)
    memory: int = 0
    cores: float | None = None
    failed: str | None = None

    def delay(self, share: float) -> float:
        """A percentile of the delays; NaN where nothing was measured."""
        return _share(self.delays, share)

    def delay_beside(self, share: float) -> float:
        """The same of those beside backfills."""
        return _share(self.beside, share)

    @property
    def bulk_seconds(self) -> float:
        """Median seconds of an update of every order through all tables; NaN where not measured."""
        return _median([r[DWS] for r in self.bulk])

    @property
    def backfill_seconds(self) -> float:
        """Median seconds of a backfill beside the stream; NaN where not measured."""
        return _median(self.backfills)


@dataclass
class Race:
    """One contender's run.

    Args:
        connector: of its source.
        directory: empty, for the contender.
    """

    stack: Stack
    database: OrdersDatabase
    contender: Contender
    connector: ConnectorFile
    directory: Path
    tell: Tell
    score: Score = field(init=False)

    def __post_init__(self) -> None:
        self.score = Score(self.contender.name)

    @property
    def source(self) -> Source:
        settings = self.stack.settings
        return Source(settings.postgres_dsn(), Broker.of(settings), self.connector.topics())

    @contextmanager
    def running(self, rows: int) -> Iterator[None]:
        """The contender waits for the first event of a new table of so many orders."""
        self.database.create(rows)
        create_topics(Broker.of(self.stack.settings), self.connector.topics())
        try:
            self.contender.start(self.source, self.directory)
            yield
        finally:
            self.contender.stop()
            with ConnectClient(self.stack.settings.connect_rest) as client:
                client.delete(self.connector.name)
            config = self.connector.config
            self.database.drop_slot(config["slot.name"], config["publication.name"])

    def snapshot(self) -> None:
        """From the registration of the connector to all rows in all tables.

        headrace registers as `headrace up` does, which may choose a bulk snapshot.
        """
        begun = time.time()
        if isinstance(self.contender, Headrace):
            self.stack.register_connectors()
        else:
            with ConnectClient(self.stack.settings.connect_rest) as client:
                client.put_connector(self.connector)
        self.score.snapshot = self.right(begun, "after the snapshot", TABLES)

    def freshness(self, warm_up: float, seconds: float) -> None:
        """Small updates at a steady rate; every changed group is looked for in the commits."""
        self.updates(warm_up, WARMING)
        processors = busy(self.contender.roots())
        begun = time.time()
        committed = self.updates(seconds, MEASURED)
        self.score.cores = (busy(self.contender.roots()) - processors) / (time.time() - begun)
        self.score.delays = self._delays(begun, committed, MEASURED)

    def freshness_beside(self, seconds: float, backfill: Callable[[], None]) -> None:
        """As `freshness`, while one backfill follows the other."""
        over = threading.Event()

        def work() -> None:
            while not over.is_set():
                started = time.monotonic()
                backfill()
                self.score.backfills.append(time.monotonic() - started)

        with ThreadPoolExecutor(max_workers=1) as pool:
            begun = time.time()
            working = pool.submit(work)
            try:
                committed = self.updates(seconds, BESIDE)
            finally:
                over.set()
            working.result()  # raises what a backfill raised
        self.score.beside = self._delays(begun, committed, BESIDE)

    def _delays(self, begun: float, committed: Mapping[int, float], first: int) -> list[float]:
        """From each update's commit to the first commit of `dws_user_hour` that shows it."""
        self.settled(begun)
        wanted = {
            group: committed[order // STRIDE]
            for group, order in self.database.groups().items()
            if order // STRIDE in committed and first <= order % STRIDE < first + BATCH
        }
        seen: dict[tuple[int, str], float] = {}
        for commit in self.contender.commits(DWS):
            if commit.at < begun:
                continue
            images = commit.images()
            for group in zip(*(images.column(c).to_pylist() for c in ("user_id", "logdate")), strict=True):
                if group in wanted:
                    seen.setdefault(group, commit.at)
        self.score.missing += len(wanted) - len(seen)
        return [at - wanted[group] for group, at in seen.items()]

    def throughput(self, rounds: int) -> None:
        """Every order at once, through all tables."""
        for _ in range(rounds):
            self.score.updated, committed = self.database.update_all()
            self.score.bulk.append(self.right(committed, "after an update of all", [DWS]))
            self.tell(f"{self.contender.name}: {self.score.bulk[-1][DWS]:.1f} s")
        self.right(self.database.remove_some(), "at the end", TABLES)

    def updates(self, seconds: float, first: int) -> dict[int, float]:
        """When each update was committed, by its turn."""
        committed: dict[int, float] = {}
        begun = time.monotonic()
        chance = random.Random(first)  # the same for all; a steady beat keeps step with a contender's trigger
        for turn in range(int(seconds / INTERVAL)):
            time.sleep(max(0.0, begun + (turn + chance.random()) * INTERVAL - time.monotonic()))
            committed[turn] = self.database.update_some(turn, first=first, count=BATCH)
        return committed

    def settled(self, since: float) -> dict[str, float]:
        """Wait until nothing is committed any more. Seconds from `since` to the last commit of each table."""
        deadline = time.monotonic() + TIMEOUT
        while True:
            self.score.memory = max(self.score.memory, resident_bytes(self.contender.roots()))
            last = {table: _last(self.contender, table) for table in TABLES}
            now = time.time()
            if min(last.values()) > since and now - max(last.values()) > self.contender.settle:
                return {table: at - since for table, at in last.items()}
            if time.monotonic() > deadline:
                behind = ", ".join(t for t, at in last.items() if at <= since) or "it still commits"
                raise TransientError(f"{self.contender.name} is not done after {TIMEOUT:.0f} s: {behind}")
            time.sleep(POLL_SECONDS)

    def right(self, since: float, when: str, tables: Sequence[str]) -> dict[str, float]:
        """As `settled`, and the tables are compared: one that differs still has a while to go on."""
        deadline = time.monotonic() + LATE
        while True:
            taken = self.settled(since)
            wrong = self._differences(tables)
            if not wrong:
                return taken
            if time.monotonic() > deadline:
                self.score.wrong.setdefault(when, []).extend(wrong)
                return taken
            time.sleep(POLL_SECONDS)

    def _differences(self, tables: Sequence[str]) -> list[str]:
        compared = {table: self.database.compare(table, self.contender.rows(table)) for table in tables}
        return [
            f"{table}: {found.extra} rows too many, {found.missing} missing"
            for table, found in compared.items()
            if not found.equal
        ]


def of_contender(template: ConnectorFile, name: str) -> ConnectorFile:
    """The connector of one contender: a topic and a slot of its own, and a publication where it makes one."""
    own = {"topic.prefix": name, "slot.name": f"bench_{name}"}
    if template.config.get("publication.autocreate.mode") != "disabled":
        own["publication.name"] = f"bench_{name}"
    return replace(template, name=name, config=template.config | own)


def _share(delays: Sequence[float], share: float) -> float:
    return percentile(sorted(delays), share) if delays else float("nan")


def _median(seconds: Sequence[float]) -> float:
    return median(seconds) if seconds else float("nan")


def _last(contender: Contender, table: str) -> float:
    commits = contender.commits(table)
    return commits[-1].at if commits else 0.0
