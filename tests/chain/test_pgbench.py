"""pgbench changes three tables at once: their sums agree in every version, through kills and bulk."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from chain_support import eventually
from deltalake import DeltaTable
from running_shop import ROOT, Shop, grant

from headrace.gateway.client import GatewayClient
from headrace.services.programs.postgres import postmaster
from headrace.services.scratch import scratch_settings
from headrace.services.stack import Stack
from headrace.spec import load_project
from headrace.store.schema import KIND

SIDES = {"accounts": ("aid", "abalance"), "tellers": ("tid", "tbalance"), "branches": ("bid", "bbalance")}
BALANCES = "dws.balances"
SECONDS, CLIENTS, RATE = 25, 4, 150


def write_project(project: Path) -> None:
    connector = json.loads((ROOT / "deploy" / "connectors" / "shop.json").read_text())
    captured = [f"public.pgbench_{side}" for side in SIDES]
    connector["name"] = "bank"
    connector["config"] |= {
        "topic.prefix": "bank",
        "table.include.list": ",".join([*captured, "public.headrace_marker"]),
        "slot.name": "headrace_bank",
        "publication.name": "headrace_bank",
    }
    files = {"deploy/connectors/bank.json": json.dumps(connector)}
    for side, (key, balance) in SIDES.items():
        files[f"layers/stg/{side}.sql"] = (
            f"CREATE MATERIALIZED TABLE stg.{side} FRESHNESS = DOWNSTREAM\n"
            f"AS SELECT {key}, bid, {balance} FROM bank.public.pgbench_{side}\n"
        ).replace("bid, bid", "bid")
        files[f"layers/dwd/{side}.sql"] = (
            f"CREATE MATERIALIZED TABLE dwd.{side} (PRIMARY KEY (id)) FRESHNESS = DOWNSTREAM\n"
            f"AS SELECT 1 AS id, sum({balance}) AS total FROM stg.{side}\n"
        )
    files[f"layers/dws/{BALANCES[4:]}.sql"] = (
        f"CREATE MATERIALIZED TABLE {BALANCES} (PRIMARY KEY (id)) FRESHNESS = INTERVAL '2' SECOND\n"
        "AS SELECT a.id, a.total AS accounts, t.total AS tellers, b.total AS branches\n"
        "FROM dwd.accounts a JOIN dwd.tellers t ON t.id = a.id JOIN dwd.branches b ON b.id = a.id\n"
    )
    for name, text in files.items():
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def pgbench(shop: Shop, *arguments: str) -> subprocess.Popen[str]:
    server = postmaster(shop.settings)
    assert server is not None
    program = Path(server.exe()).with_name("pgbench")
    return subprocess.Popen(
        [program, *arguments, shop.dsn], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def finished(process: subprocess.Popen[str]) -> str:
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 0, said
    return said


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[Shop]:
    write_project(tmp_path)
    with scratch_settings(tmp_path, driver_memory="1g") as settings:
        stack = Stack(settings)
        try:
            stack.up(only=["connect"])
            with GatewayClient(settings) as client:
                bank = Shop(stack, client, load_project(tmp_path))
                finished(pgbench(bank, "-i", "-q", "-s", "1"))
                with psycopg.connect(bank.dsn) as source:
                    source.execute("CREATE TABLE headrace_marker (id text PRIMARY KEY, at timestamptz)")
                    for side in SIDES:
                        source.execute(f"ALTER TABLE pgbench_{side} REPLICA IDENTITY FULL")
                grant(bank.dsn, settings.connectors / "bank.json")
                stack.up(only=["warehouse"])
                stack.register_connectors()
                bank.wait_running()
                yield bank
        finally:
            stack.down()


def sums(bank: Shop) -> list[tuple[int, int, int]]:
    """As PostgreSQL has them."""
    totals = ", ".join(f"(SELECT sum({b}) FROM pgbench_{side})::bigint" for side, (_, b) in SIDES.items())
    with psycopg.connect(bank.dsn) as source:
        return source.execute(f"SELECT {totals}").fetchall()


def shown(bank: Shop) -> list[tuple[int, ...]]:
    rows = bank.client.query(f"SELECT accounts, tellers, branches FROM {BALANCES}").to_pylist()
    return [tuple(row.values()) for row in rows]


def at_once(bank: Shop) -> None:
    """One transaction of as many changes as there are accounts: more than are looked at one by one."""
    with psycopg.connect(bank.dsn) as source:
        source.execute("UPDATE pgbench_accounts SET abalance = abalance + 1")
        source.execute("UPDATE pgbench_tellers SET tbalance = tbalance + 100000 WHERE tid = 1")
        source.execute("UPDATE pgbench_branches SET bbalance = bbalance + 100000")


@pytest.mark.long
def test_balances_agree_in_every_version(bank: Shop) -> None:
    eventually("the first load", lambda: shown(bank) == [(0, 0, 0)])
    load = pgbench(bank, "-n", "-c", str(CLIENTS), "-T", str(SECONDS), "-R", str(RATE))
    bank.wait_advanced(BALANCES, by=3)
    bank.kill()  # between the commits of two tables, as likely as not
    bank.wait_running()
    bank.wait_advanced(BALANCES)
    at_once(bank)
    said = finished(load)
    at_once(bank)
    eventually("all is shown", lambda: shown(bank) == sums(bank))
    log = DeltaTable(str(bank.path(BALANCES, "changelog"))).to_pyarrow_table().to_pylist()
    torn = [row for row in log if len({row[side] for side in SIDES}) > 1]
    assert not torn, f"{len(torn)} of {len(log)} changes show a part of a transaction: {torn[:6]}; {said}"
    assert sum(row[KIND].startswith("+") for row in log) > 5
    assert shown(bank)[0][0] != 0
    bank.verify()
    bank.check_changelogs()
