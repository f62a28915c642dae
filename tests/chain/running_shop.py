"""A whole stack over a small shop, and what chain tests ask of it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil
import psycopg
from chain_support import eventually
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.demo import oracle
from headrace.demo.load import LoadGenerator
from headrace.demo.multisets import compare, tuples
from headrace.demo.shop import TABLES, create_shop, row_counts
from headrace.demo.waiting import not_caught_up
from headrace.engine.spark import failpoints
from headrace.gateway.client import GatewayClient, StatementFailed
from headrace.results import ParityResult, TableStatus
from headrace.services.catalogue import SERVICES
from headrace.services.programs.program import Program
from headrace.services.scratch import scratch_settings
from headrace.services.stack import Stack
from headrace.settings import SOURCE_ROLE, Settings
from headrace.sources.postgres.access.role import look, role_sql
from headrace.sources.stream.broker import Broker
from headrace.spec import Project, load_project
from headrace.spec.connector import load_connector
from headrace.storage.location import Location, delta_table
from headrace.store.delta.retained import Retained
from headrace.store.record.commits import history
from headrace.store.schema import KIND, ORIGIN, TOMBSTONE, VERSION

ROOT = Path(__file__).resolve().parents[2]
RATE = 20.0

Row = dict[str, Any]


@dataclass
class Shop:
    """A running stack over a small shop."""

    stack: Stack
    client: GatewayClient
    project: Project
    given: frozenset[str] = field(init=False)
    """Tables that every test finds."""

    def __post_init__(self) -> None:
        self.given = frozenset(map(str, self.project.tables))

    @property
    def settings(self) -> Settings:
        return self.stack.settings

    @property
    def dsn(self) -> str:
        return self.settings.postgres_dsn()

    @property
    def pid(self) -> int | None:
        return self.stack.supervisor.process("warehouse").pid

    def load(self, seed: int, rate: float = RATE) -> LoadGenerator:
        return LoadGenerator(self.dsn, seed=seed, rate=rate)

    @contextmanager
    def served(self, environment: dict[str, str]) -> Iterator[None]:
        """Replace the warehouse server by one with these variables, meanwhile."""
        program = SERVICES["warehouse"].prepare(self.settings)
        try:
            self._serve(replace(program, environment={**program.environment, **environment}))
            yield
        finally:
            self._serve(program)

    def _serve(self, program: Program) -> None:
        self.stack.supervisor.configure(program)
        self.stack.supervisor.launch("warehouse")
        self.wait_answers()
        self.wait_running()

    def arm(self, failpoint: str) -> None:
        """The warehouse server dies at this point, once."""
        failpoints.arm(Path(os.environ[failpoints.VARIABLE]), failpoint)

    def kill(self) -> None:
        """Kill the warehouse server, and wait until its successor answers."""
        pid = self.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        self.wait_replaced(pid)
        self.wait_answers()

    def wait_replaced(self, killed: int) -> int:
        """Wait until that process is gone and another one there; returns it."""
        eventually("it is dead", lambda: not psutil.pid_exists(killed))
        return eventually("another process", lambda: pid if (pid := self.pid) != killed else None) or 0

    def wait_answers(self) -> None:
        eventually("the server answers", lambda: self.client.health()["state"] == "ready")

    def restore(self) -> None:
        """End what a failed test has left: an armed failpoint, suspended tables, tables of its own."""
        self.arm("")
        self.wait_answers()
        for table, status in self.status().items():
            if status.state == "SUSPENDED":
                self.client.run(f"ALTER MATERIALIZED TABLE {table} RESUME")
        while left := self.status().keys() - self.given:
            dropped = [table for table in left if self._dropped(table)]
            assert dropped, f"none of {left} can be dropped"
        self.project = load_project(self.settings.project)

    def _dropped(self, table: str) -> bool:
        """Not before what reads it."""
        try:
            self.client.run(f"DROP MATERIALIZED TABLE {table}")
        except StatementFailed:
            return False
        return True

    def status(self) -> dict[str, TableStatus]:
        return {status.table: status for status in self.client.status()}

    def wait_running(self) -> None:
        names = {str(name) for name in self.project.tables}

        def running() -> bool:
            states = self.status()
            assert states.keys() == names
            others = {t: (s.state, s.rows, s.last_error) for t, s in states.items() if s.state != "RUNNING"}
            assert not others, others
            return True

        eventually("every table runs", running)

    def wait_caught_up(self) -> None:
        """Every change of the source, which must rest, is in every table."""
        counts = row_counts(self.dsn)
        rows = {f"stg.{table}": counts[table] for table in TABLES}

        def caught_up() -> bool:
            outstanding = not_caught_up(self.client.status(), rows)
            assert outstanding is None, outstanding
            return True

        eventually("caught up", caught_up)

    def wait_advanced(self, *tables: str, by: int = 1) -> None:
        wanted = {table: status.version + by for table, status in self.status().items() if table in tables}

        def advanced() -> bool:
            now = self.status()
            behind = {t: (now[t].state, now[t].version) for t in tables if now[t].version < wanted[t]}
            assert not behind, behind
            return True

        eventually(f"{', '.join(tables)} advance", advanced)

    def verify(self, *tables: str) -> None:
        """Streams equal batch, and stg equals its source."""
        names = tables or tuple(str(name) for name in self.project.tables)
        statement = self.client.run(f"VERIFY {', '.join(tables)}".strip())
        results = [ParityResult.model_validate(result) for result in statement.result]
        wrong = [r.model_dump(exclude={"frontier"}) for r in results if not r.equal or r.error]
        assert not wrong, wrong
        compared = {(name, "batch") for name in names}
        compared |= {(name, "source") for name in names if name.startswith("stg.")}
        assert {(r.table, r.against) for r in results} == compared

    def refresh(self, table: str) -> None:
        """Carry what is new to a table that does not stream, after a refresh that is under way."""
        refresh = f"ALTER MATERIALIZED TABLE {table} REFRESH NEW"
        eventually(f"{table} is refreshed", lambda: self.client.run(refresh))

    def check_against_postgres(self) -> None:
        """Every dws table is what PostgreSQL computes from the source, which must rest."""
        self.wait_caught_up()
        status = self.status()
        for table in oracle.TABLES:
            if status[table].mode != "CONTINUOUS":
                self.refresh(table)
        wrong = {}
        with psycopg.connect(self.dsn) as connection:
            for table in oracle.TABLES:
                columns, expected = oracle.expected(connection, table)
                live = self.client.query(f"SELECT * FROM {table}")
                found = compare(columns, table=tuples(live, columns), expected=expected)
                assert found.rows > 0, table
                if not found.equal:
                    wrong[table] = found
        assert not wrong, wrong

    def path(self, table: str, part: str) -> Location:
        layer, _, name = table.partition(".")
        return self.settings.warehouse / layer / name / part

    def check_changelogs(self) -> None:
        for name in self.project.tables:
            self.check_changelog(str(name))

    def check_changelog(self, table: str) -> None:
        check_changelog(self.path(table, "changelog"), self.primary_key(table))

    def check_lock_order(self) -> None:
        """No thread of any server that has run here took locks out of order."""
        logs = [path.read_text() for path in self.settings.logs.glob("warehouse.log*")]
        assert logs and not [line for text in logs for line in text.splitlines() if "lock order: " in line]

    def primary_key(self, table: str) -> list[str]:
        key: list[str] = self.client.run(f"DESCRIBE MATERIALIZED TABLE {table}").result["primary_key"]
        return key


def check_changelog(path: Location, key: list[str]) -> None:
    """Replayed one by one, every change fits the row it meets: none is lost and none is there twice."""
    log = delta_table(path)
    changes: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in log.to_pyarrow_table().to_pylist():
        if row[ORIGIN] != TOMBSTONE:
            changes[tuple(row[column] for column in key)].append(row)
    held = begun_with(path.parent, key)
    for of_key, rows in changes.items():
        rows.sort(key=lambda row: (row[VERSION], row[KIND].startswith("+")))
        repeated = [at for at, n in Counter((r[VERSION], r[KIND]) for r in rows).items() if n > 1]
        assert not repeated, f"{path}: {of_key} has {repeated} more than once"
        for row in rows:
            image = {name: value for name, value in row.items() if not name.startswith("_")}
            where = f"{path}: {row[KIND]} of {of_key} in version {row[VERSION]}"
            if row[KIND].startswith("-"):
                was = held.pop(of_key, None)
                assert was == image, f"{where} takes away {image}, there was {was}; all: {rows}"
            else:
                assert of_key not in held, f"{where} adds to a row that is there"
                held[of_key] = image
    read = log.version()  # the stream may have gone on; maintenance takes Delta versions of its own
    commit = next(c for at, c in history(path) if at <= read and c.mode != "maintenance")
    assert commit.version >= max((row[VERSION] for rows in changes.values() for row in rows), default=0)
    assert commit.rows == len(held), path


def begun_with(table: Location, key: list[str]) -> dict[tuple[Any, ...], Row]:
    """Rows before the first change that a changelog has: those of a table that began again."""
    removed = Retained.load(table).removed
    if not removed:
        return {}
    at = next(at for at, c in history(table / "snapshot") if c.version == removed)
    rows = delta_table(table / "snapshot", at).to_pyarrow_table().to_pylist()
    images = [{name: value for name, value in row.items() if not name.startswith("_")} for row in rows]
    return {tuple(image[column] for column in key): image for image in images}


def copy_project(project: Path, layers: str = "*", without: Sequence[str] = ()) -> None:
    """The layers, or one of them, and connectors of this repository in an empty folder.

    Tables that trail their flow by a minute trail it by less: a trailing table is refreshed four times within
    its freshness, and whoever waits until all changes are everywhere waits for that. They trail still, since
    the tightest declares 10 s.

    Args:
        without: tables that are left out, and nothing that is copied reads.
    """
    for layer in (ROOT / "layers").glob(layers):
        shutil.copytree(layer, project / "layers" / layer.name)
    shutil.copytree(ROOT / "deploy" / "connectors", project / "deploy" / "connectors")
    for table in without:
        for file in (project / "layers").glob(f"{table.replace('.', '/')}.*"):
            file.unlink()
    minute = "FRESHNESS = INTERVAL '1' MINUTE"
    for file in (project / "layers").glob("*/*.sql"):
        file.write_text(file.read_text().replace(minute, "FRESHNESS = INTERVAL '24' SECOND"))


def create_topics(broker: Broker, partitions: int) -> None:
    """The topics of the shop's tables, before headrace and Debezium would make them."""
    client = AdminClient(broker.client())  # ends its requests when nobody has it any more
    topics = [NewTopic(f"shop.public.{table}", partitions, 1) for table in TABLES]
    for created in client.create_topics(topics).values():
        created.result(timeout=30)


@contextmanager
def kept(shop: Shop) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """A connection to the source, whose words are at the end what they were."""
    with psycopg.connect(shop.dsn, autocommit=True) as source:
        source.execute("CREATE TEMP TABLE kept AS SELECT * FROM page_words")
        try:
            yield source
        finally:
            with source.transaction():
                source.execute("DELETE FROM page_words")
                source.execute("INSERT INTO page_words SELECT * FROM kept")
    shop.wait_caught_up()


def grant(dsn: str, connector: Path) -> None:
    """Let the embedded server's role follow what a connector captures, as `headrace source role` says it."""
    wanted = look(dsn, load_connector(connector))
    with psycopg.connect(dsn, autocommit=True) as owner:
        for statement in role_sql(SOURCE_ROLE, wanted)[1:]:  # the role is there
            owner.execute(statement.encode())


@contextmanager
def own_shop(
    project: Path,
    *,
    seed: int,
    layers: str = "*",
    without: Sequence[str] = (),
    partitions: int = 1,
    **settings: str,
) -> Iterator[Shop]:
    """A stack over a still smaller shop, for tests that its other tables or its source do not outlive.

    Args:
        layers, without: see `copy_project`.
        partitions: of the topics, which somebody else has made where they are several.
    """
    copy_project(project, layers, without)
    with scratch_settings(project, driver_memory="1g", **settings) as scratch:
        stack = Stack(scratch)
        try:
            stack.up(only=["connect"])
            create_shop(scratch.postgres_dsn(), seed=seed, orders=300, users=60, products=25, words=100)
            if partitions > 1:
                create_topics(Broker.of(scratch), partitions)
            stack.up(only=["warehouse"])
            stack.register_connectors()
            with GatewayClient(scratch) as client:
                shop = Shop(stack, client, load_project(project))
                shop.wait_caught_up()
                yield shop
        finally:
            stack.down()


def command(
    shop: Shop, *arguments: str, code: int = 0, stdin: str | None = None
) -> subprocess.CompletedProcess[str]:
    """`headrace …` as a process of its own, in the shop's project."""
    settings = shop.settings
    environment = os.environ | settings.variables()
    return run_headrace(*arguments, at=settings.project, env=environment, code=code, stdin=stdin)


def run_headrace(
    *arguments: str, at: Path, env: Mapping[str, str], code: int = 0, stdin: str | None = None
) -> subprocess.CompletedProcess[str]:
    """`headrace …` as a process of its own, in a folder, with these variables and no others."""
    done = subprocess.run(
        [sys.executable, "-m", "headrace.cli.main", *arguments],
        env=env,
        cwd=at,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


@contextmanager
def start_shop(stack: Stack) -> Iterator[Shop]:
    """The layers of the stack's project over a shop of 2,000 orders."""
    create_shop(stack.settings.postgres_dsn(), seed=11, orders=2_000, users=60, products=25, words=400)
    stack.up(only=["warehouse"])
    stack.register_connectors()
    with GatewayClient(stack.settings) as client:
        shop = Shop(stack, client, load_project(stack.settings.project))
        yield shop
        shop.check_lock_order()
