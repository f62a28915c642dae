"""The demo's own shop, load and layers under one contender: how long each table takes to show a change."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median

import psycopg

from benchmarks.live.contender import Contender, Source, Tell
from benchmarks.live.marks import INTERVAL, ROWS, Marks, Shown, delays_of, shown
from benchmarks.live.processes import busy
from headrace.demo import oracle
from headrace.demo.load import LoadGenerator
from headrace.demo.memory import resident_bytes
from headrace.demo.multisets import compare, tuples
from headrace.errors import TransientError
from headrace.percentile import percentile

POLL_SECONDS = 0.5
TIMEOUT = 600.0
TELL_SECONDS = 60.0
"""Apart at least: what is said of a wait."""

LATE = 120.0
"""Seconds after which a mark that no table shows counts as missing, and a table that differs as wrong."""


@dataclass(frozen=True)
class Phase:
    """What was seen in one stretch of load. Seconds.

    Args:
        rate: row changes a second that there really were, marks among them.
        delays: by table, from the acknowledged commit of each mark to the table's commit that shows it.
        missing: by table, marks that never showed.
        processor: processor seconds of the contender for 1,000 row changes.
        memory: largest resident size of the contender at its end, bytes.
    """

    rate: float
    delays: Mapping[str, Sequence[float]]
    missing: Mapping[str, int]
    processor: float
    memory: int

    def delay(self, table: str, share: float) -> float:
        """A percentile of a table's delays, in which a mark that never showed is beyond all bounds."""
        delays = [*sorted(self.delays[table]), *[float("inf")] * self.missing[table]]
        return percentile(delays, share) if delays else float("nan")

    def part_of(self, table: str, declared: float) -> float:
        """The table's p90 as a part of what it declares, beyond all bounds where a mark never showed."""
        return self.delay(table, 0.9) / declared if not self.missing[table] else float("inf")

    @property
    def delay_of_all(self) -> float:
        """Median of the tables' median delays."""
        return median(self.delay(table, 0.5) for table in self.delays)


@dataclass
class ShopScore:
    """What one contender did.

    Args:
        snapshot: seconds from the connector's registration until every table shows the first mark.
        phases: by name, in order.
        verify: seconds of each `VERIFY` of every table beside the load.
        first_row: seconds from the start on existing tables to the first mark in `dws.user_hour`.
        wrong: tables that differ from PostgreSQL's own result at the end.
    """

    name: str
    snapshot: float = float("nan")
    phases: dict[str, Phase] = field(default_factory=dict)
    verify: Sequence[float] = ()
    first_row: float | None = None
    wrong: list[str] = field(default_factory=list)
    failed: str | None = None


@dataclass
class ShopRun:
    """One contender over a running source.

    Args:
        seed: of the load.
    """

    source: Source
    contender: Contender
    seed: int
    tell: Tell
    score: ShopScore = field(init=False)
    marks: Marks = field(init=False)

    def __post_init__(self) -> None:
        self.score = ShopScore(self.contender.name)

    @contextmanager
    def marked(self) -> Iterator[None]:
        """Marks are made meanwhile."""
        with Marks(self.source.dsn) as self.marks:
            yield

    def wait_shown(self, since: float) -> dict[str, float]:
        """Wait until every table shows a mark that was made after `since`.

        Returns:
            By table, the epoch seconds of the commit that shows it.

        Raises:
            TransientError: a table does not.
        """
        deadline = time.monotonic() + TIMEOUT
        found: dict[str, float] = {}
        while not found and time.monotonic() < deadline:
            if mark := next((made for made in self.marks.made if made[1] > since), None):
                found = self._shown_before(deadline, mark)
            else:
                time.sleep(INTERVAL)
        if behind := [table for table in self._tables if table not in found]:
            raise TransientError(
                f"{self.contender.name}: {', '.join(behind)} did not show a change within {TIMEOUT:.0f} s"
            )
        return found

    def _shown_before(self, deadline: float, mark: tuple[int, float]) -> dict[str, float]:
        """Wait until every table shows the mark, not beyond the deadline. Those that do, as `wait_shown`."""
        told = time.monotonic()
        while len(found := self._shown(mark)) < len(self._tables) and time.monotonic() < deadline:
            if time.monotonic() > told + TELL_SECONDS:
                told = time.monotonic()
                behind = ", ".join(table for table in self._tables if table not in found)
                self.tell(f"{self.contender.name}: waiting for {behind}")
                self.contender.check()
            time.sleep(POLL_SECONDS)
        return found

    def _shown(self, mark: tuple[int, float]) -> dict[str, float]:
        number, at = mark
        found = {}
        for table, how in self._tables.items():
            delay = delays_of([mark], self.contender.commits(table), how)
            if number in delay:
                found[table] = at + delay[number]
        return found

    @property
    def _tables(self) -> dict[str, Shown]:
        return shown(self.marks.hour)

    def phase(self, name: str, rate: float, warm_up: float, seconds: float) -> Phase:
        """A load of so many row changes a second, marks among them; measured after the warm-up."""
        load = LoadGenerator(self.source.dsn, seed=self.seed, rate=rate - ROWS / INTERVAL)
        with load:
            self._pass(load, warm_up)
            changes, processor, begun = load.changes, busy(self.contender.roots()), time.time()
            self._pass(load, seconds)
            processor = busy(self.contender.roots()) - processor
            ended = time.time()
            measured = [mark for mark in self.marks.made if begun <= mark[1] < ended]
            changed = load.changes - changes + len(measured) * ROWS
        self._shown_before(time.monotonic() + LATE, measured[-1])
        delays = {t: self._delays(t, how, measured) for t, how in self._tables.items()}
        found = Phase(
            rate=changed / (ended - begun),
            delays=delays,
            missing={table: len(measured) - len(seen) for table, seen in delays.items()},
            processor=processor / changed * 1000,
            memory=resident_bytes(self.contender.roots()),
        )
        self.score.phases[name] = found
        self.tell(
            f"{self.contender.name}, {name}: {found.rate:.0f} changes a second, p50 of all tables "
            f"{found.delay_of_all:.2f} s"
        )
        return found

    def _pass(self, load: LoadGenerator, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            load.raise_if_failed()
            time.sleep(min(POLL_SECONDS, left))

    def _delays(self, table: str, how: Shown, measured: Sequence[tuple[int, float]]) -> list[float]:
        return list(delays_of(measured, self.contender.commits(table), how).values())

    def compare(self) -> None:
        """Every dws table beside PostgreSQL's own result, a while long; the source must rest."""
        deadline = time.monotonic() + LATE
        with psycopg.connect(self.source.dsn, autocommit=True) as connection:
            connection.execute("SET search_path = public")
            while True:
                self.score.wrong = [t for t in oracle.TABLES if not self._equal(connection, t)]
                if not self.score.wrong or time.monotonic() > deadline:
                    return
                time.sleep(POLL_SECONDS)

    def _equal(self, connection: psycopg.Connection, table: str) -> bool:
        columns, rows = oracle.expected(connection, table)
        return compare(columns, table=tuples(self.contender.rows(table), columns), expected=rows).equal
