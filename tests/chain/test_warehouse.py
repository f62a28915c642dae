"""The warehouse server in the real stack: a small shop, Debezium, Kafka, and kills at bad moments."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import psutil
import psycopg
import pytest
from chain_support import eventually, free_ports, own_settings
from confluent_kafka import Producer
from deltalake import DeltaTable

from headrace.demo.load import LoadGenerator
from headrace.demo.shop import TABLES, create_shop, row_counts
from headrace.demo.waiting import not_caught_up
from headrace.gateway.client import GatewayClient, StatementRefused
from headrace.results import ParityResult, RefreshResult, TableStatus
from headrace.services import processes
from headrace.services.catalogue import SERVICES
from headrace.services.program import Program
from headrace.services.stack import Stack
from headrace.settings import Settings
from headrace.spec import Project, load_project
from headrace.store.commits import read_commit
from headrace.store.schema import BACKFILL, KIND, ORIGIN, TOMBSTONE, VERSION

pytestmark = pytest.mark.chain
ROOT = Path(__file__).resolve().parents[2]
WATCHED = "dws.user_hour"
RATE = 20.0

Row = dict[str, Any]


@dataclass(frozen=True)
class Shop:
    """A running stack over a small shop."""

    stack: Stack
    client: GatewayClient
    project: Project

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

    def serve(self, program: Program) -> None:
        """Replace the warehouse server by one that runs so; returns at once."""
        self.stack.supervisor.configure(program)
        self.stack.supervisor.launch("warehouse")

    def status(self) -> dict[str, TableStatus]:
        return {status.table: status for status in self.client.status()}

    def wait_running(self) -> None:
        states = eventually(
            "every table runs",
            lambda: (s := self.status()) and {t.state for t in s.values()} == {"RUNNING"} and s,
            timeout=120,
        )
        assert set(states) == {str(name) for name in self.project.tables}

    def wait_caught_up(self) -> None:
        """Every change of the source, which must rest, is in every table."""
        counts = row_counts(self.dsn)
        rows = {f"stg.{table}": counts[table] for table in TABLES}

        def caught_up() -> bool:
            outstanding = not_caught_up(self.client.status(), rows)
            assert outstanding is None, outstanding
            return True

        eventually("caught up", caught_up, timeout=120)

    def wait_advanced(self, *tables: str, by: int = 1) -> None:
        before = self.status()
        eventually(
            f"{', '.join(tables)} advance",
            lambda: (now := self.status()) and all(now[t].version >= before[t].version + by for t in tables),
        )

    def verify(self, *tables: str) -> None:
        """Streams equal batch, and stg equals its source."""
        names = tables or tuple(str(name) for name in self.project.tables)
        statement = self.client.run(f"VERIFY {', '.join(tables)}".strip())
        results = [ParityResult.model_validate(result) for result in statement.result]
        wrong = [r.model_dump(exclude={"frontier"}) for r in results if not r.equal or r.error]
        assert not wrong
        compared = {(name, "batch") for name in names}
        compared |= {(name, "source") for name in names if name.startswith("stg.")}
        assert {(r.table, r.against) for r in results} == compared

    def path(self, table: str, part: str) -> Path:
        layer, _, name = table.partition(".")
        return self.settings.warehouse / layer / name / part

    def check_changelogs(self) -> None:
        for name in self.project.tables:
            check_changelog(self.path(str(name), "changelog"), self.primary_key(str(name)))

    def primary_key(self, table: str) -> list[str]:
        key: list[str] = self.client.run(f"DESCRIBE MATERIALIZED TABLE {table}").result["primary_key"]
        return key


def check_changelog(path: Path, key: list[str]) -> None:
    """Replayed one by one, every change fits the row it meets: none is lost and none is there twice."""
    log = DeltaTable(str(path))
    changes: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in log.to_pyarrow_table().to_pylist():
        if row[ORIGIN] != TOMBSTONE:
            changes[tuple(row[column] for column in key)].append(row)
    held: dict[tuple[Any, ...], Row] = {}
    for of_key, rows in changes.items():
        rows.sort(key=lambda row: (row[VERSION], row[KIND].startswith("+")))
        repeated = [at for at, n in Counter((r[VERSION], r[KIND]) for r in rows).items() if n > 1]
        assert not repeated, f"{path}: {of_key} has {repeated} more than once"
        for row in rows:
            image = {name: value for name, value in row.items() if not name.startswith("_")}
            where = f"{path}: {row[KIND]} of {of_key} in version {row[VERSION]}"
            if row[KIND].startswith("-"):
                assert held.pop(of_key, None) == image, f"{where} takes away what was not there"
            else:
                assert of_key not in held, f"{where} adds to a row that is there"
                held[of_key] = image
    commit = read_commit(path, log.version())
    assert commit is not None and commit.version == log.version()
    assert commit.rows == len(held), path


@pytest.fixture(scope="module")
def running_shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    project = tmp_path_factory.mktemp("project")
    shutil.copytree(ROOT / "layers", project / "layers")
    shutil.copytree(ROOT / "deploy" / "connectors", project / "deploy" / "connectors")
    with own_settings(project, compaction_interval_seconds=5.0, driver_memory="1g") as settings:
        stack = Stack(settings)
        try:
            stack.up(only=["postgres"])
            create_shop(settings.postgres_dsn(), seed=11, orders=2_000, users=60, products=25, words=400)
            stack.up(only=["connect", "warehouse"])
            stack.register_connectors()
            with GatewayClient(settings) as client:
                yield Shop(stack, client, load_project(project))
        finally:
            stack.down()


@pytest.fixture
def shop(running_shop: Shop) -> Shop:
    running_shop.wait_running()
    return running_shop


def test_snapshot_and_increments_without_hand_over(shop: Shop) -> None:
    shop.wait_caught_up()
    with shop.load(seed=1, rate=400) as load:
        eventually("200 changes", lambda: load.changes >= 200)
    shop.wait_caught_up()
    with shop.load(seed=2) as load:
        shop.wait_advanced("stg.orders", WATCHED)
        shop.verify()
        load.raise_if_failed()
    shop.check_changelogs()


@pytest.mark.parametrize("failpoint", ["flow.before_checkpoint=kill@2", "flow.after_commit=kill@3"])
def test_killed_between_two_commits_each_change_is_applied_once(shop: Shop, failpoint: str) -> None:
    program = SERVICES["warehouse"].prepare(shop.settings)
    armed = replace(program, environment={**program.environment, "HEADRACE_FAILPOINTS": failpoint})
    shop.serve(armed)
    with shop.load(seed=3):
        armed_pid = eventually("the armed server's pid", lambda: shop.pid)
        eventually("it killed itself", lambda: not psutil.pid_exists(armed_pid), timeout=180)
        shop.serve(program)  # else every process that the supervisor starts would die at the same point
        eventually("it answers", lambda: shop.client.health()["state"] == "ready", timeout=120)
        shop.wait_running()
        shop.wait_advanced(WATCHED)
    shop.verify()
    shop.check_changelogs()


def test_killed_under_load_it_goes_on_where_it_was(shop: Shop) -> None:
    with shop.load(seed=4):
        shop.wait_advanced(WATCHED, by=2)
        before, pid = shop.status(), shop.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        eventually("another process", lambda: shop.pid not in (None, pid))
        eventually("it answers", lambda: shop.client.health()["state"] == "ready", timeout=120)
        shop.wait_running()
        after = shop.status()
        assert all(after[table].version >= before[table].version for table in before)
        shop.wait_advanced("stg.orders", "dwd.orders", WATCHED)
    shop.verify()
    shop.check_changelogs()


def test_a_suspended_table_stands_still_also_over_down_and_up(shop: Shop) -> None:
    state = shop.settings.state
    with shop.load(seed=5):
        shop.client.run(f"ALTER MATERIALIZED TABLE {WATCHED} SUSPEND")
        suspended = shop.status()[WATCHED]
        assert suspended.state == "SUSPENDED"
        shop.wait_advanced("stg.orders", "dwd.orders", "dws.gmv_hour", by=2)
        assert shop.status()[WATCHED].version == suspended.version
    eventually("its neighbours are at rest", lambda: not lags(shop, except_for=WATCHED), timeout=120)
    before = shop.status()

    pids = [s.pid for s in shop.stack.status() if s.pid is not None]
    shop.stack.down()
    assert processes.marked(state) == []
    assert not any(psutil.pid_exists(pid) for pid in pids)
    shop.stack.up(only=["connect", "warehouse"])

    eventually("the tables are back", lambda: shop.status()["stg.orders"].state == "RUNNING", timeout=120)
    after = shop.status()
    assert {t: s.version for t, s in after.items()} == {t: s.version for t, s in before.items()}
    assert {t: s.rows for t, s in after.items()} == {t: s.rows for t, s in before.items()}
    assert after[WATCHED].state == "SUSPENDED"
    with shop.load(seed=6):
        shop.wait_advanced("stg.orders", "dwd.orders", "dws.gmv_hour")
        assert shop.status()[WATCHED].version == suspended.version
        shop.client.run(f"ALTER MATERIALIZED TABLE {WATCHED} RESUME")
        shop.wait_running()
        shop.wait_advanced(WATCHED)
        shop.verify(WATCHED, "dws.gmv_hour", "dwd.orders", "stg.orders")
    shop.wait_caught_up()
    shop.check_changelogs()


def lags(shop: Shop, *, except_for: str) -> dict[str, int | None]:
    return {t: s.lag for t, s in shop.status().items() if s.lag != 0 and t != except_for}


def test_a_backfill_beside_the_stream_emits_nothing(shop: Shop) -> None:
    [hours] = shop.client.query(
        f"SELECT array_agg(logdate) AS hours FROM (SELECT DISTINCT logdate FROM {WATCHED})"
    ).to_pylist()
    labels = sorted(hours["hours"])[-40:-30]
    with shop.load(seed=7):
        shop.wait_advanced(WATCHED)
        before = shop.status()[WATCHED].version
        statement = shop.client.run(
            f"ALTER MATERIALIZED TABLE {WATCHED} REFRESH PARTITION "
            f"(logdate BETWEEN '{labels[0]}' AND '{labels[-1]}')"
        )
        result = RefreshResult.model_validate(statement.result)
        assert (result.inserted, result.updated, result.deleted) == (0, 0, 0)
        assert set(labels) <= set(result.partitions) and result.rows > 0
        eventually("the stream goes on", lambda: shop.status()[WATCHED].version > before)
        shop.verify(WATCHED, "dws.gmv_hour", "dwd.orders")
    origins = set(shop.client.query(f"CHANGES {WATCHED}").column(ORIGIN).to_pylist())
    assert BACKFILL not in origins


def test_a_message_that_is_not_json_is_put_aside_and_the_stream_goes_on(shop: Shop) -> None:
    delivered: list[tuple[int, int]] = []
    producer = Producer({"bootstrap.servers": shop.settings.kafka_bootstrap})
    producer.produce(
        "shop.public.orders",
        key=b'{"order_id": 1}',
        value=b"no json {",
        on_delivery=lambda error, message: delivered.append((message.partition(), message.offset())),
    )
    assert producer.flush(30) == 0
    [(partition, offset)] = delivered
    eventually("it is counted", lambda: shop.status()["stg.orders"].dead_letters == 1)
    [letter] = shop.client.run("SHOW DEAD LETTERS stg.orders").result
    assert (letter["topic"], letter["partition"], letter["offset"]) == (
        "shop.public.orders", partition, offset,
    )  # fmt: skip
    assert letter["value"] == "no json {" and "JSON" in letter["reason"]
    with psycopg.connect(shop.dsn) as connection:
        found = connection.execute(
            "INSERT INTO orders (user_id, status, amount, created_at, updated_at)"
            " VALUES (1, 'created', 4.20, now(), now()) RETURNING order_id"
        ).fetchone()
    assert found is not None
    select = f"SELECT amount FROM dwd.orders WHERE order_id = {found[0]}"
    eventually("the next order", lambda: shop.client.query(select).num_rows == 1)
    assert shop.status()["stg.orders"].state == "RUNNING"
    shop.verify("stg.orders")


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        (
            f"ALTER MATERIALIZED TABLE {WATCHED} REFRESH PARTITION (logdate = '2026-01-01')",
            [f"'2026-01-01' is no partition of {WATCHED}", "format yyyyMMddHH", "user_hour.sql:"],
        ),
        (
            f"ALTER MATERIALIZED TABLE {WATCHED} REFRESH PARTITION "
            "(logdate BETWEEN '2026010205' AND '2026010204')",
            ["starts at '2026010205', after its end '2026010204'", "exchange them"],
        ),
        ("SELECT * FROM dws.user_huor", ["dws.user_huor", f"did you mean `{WATCHED}`"]),
        ("VERIFY dws.user_huor", ["no table `dws.user_huor`", f"did you mean `{WATCHED}`"]),
    ],
)
def test_bad_requests_are_refused_before_anything_runs(shop: Shop, statement: str, told: list[str]) -> None:
    known = len(shop.client.statements())
    with pytest.raises(StatementRefused) as refused:
        shop.client.submit(statement)
    for text in told:
        assert text in str(refused.value)
    assert len(shop.client.statements()) == known


def test_a_second_server_on_the_same_data_is_refused(shop: Shop) -> None:
    gateway, connect = free_ports(2)
    other = shop.settings.model_copy(update={"gateway_port": gateway, "spark_connect_port": connect})
    command = [sys.executable, "-m", "headrace.gateway.server", "--project", str(other.project)]
    server = subprocess.Popen(
        command, env=os.environ | other.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        with GatewayClient(other) as client:
            health = eventually(
                "it gives up", lambda: (h := client.health())["state"] == "failed" and h, timeout=60
            )
    finally:
        server.terminate()
        server.wait(30)
    assert "is held by another warehouse server" in health["error"]
    assert f'"pid": {shop.pid}' in health["error"]
    assert shop.client.query(f"SELECT count(*) AS n FROM {WATCHED}").num_rows == 1


def test_other_engines_read_the_snapshot(shop: Shop) -> None:
    shop.wait_caught_up()
    eventually("compaction", lambda: shop.status()[WATCHED].tail_rows == 0)
    columns = "user_id, logdate, cnt, amount"
    snapshot = DeltaTable(str(shop.path(WATCHED, "snapshot"))).to_pyarrow_dataset()
    with duckdb.connect() as engine:
        engine.register("snapshot", snapshot)
        read = engine.execute(f"SELECT {columns} FROM snapshot ORDER BY ALL").fetchall()
    live = shop.client.query(f"SELECT {columns} FROM {WATCHED}").to_pylist()
    assert read and read == sorted(tuple(row.values()) for row in live)
