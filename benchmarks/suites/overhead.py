"""The suite `overhead`: what the stack costs where nothing happens, and how soon it is there."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from statistics import median

from benchmarks.live.orders_database import OrdersDatabase
from benchmarks.live.processes import command, cores
from benchmarks.report import Result, at_least, less_than, spread
from benchmarks.runner import Bench, project_files
from headrace.demo.memory import resident_bytes
from headrace.demo.waiting import wait_for
from headrace.errors import TransientError
from headrace.gateway.client import GatewayClient
from headrace.services.scratch import scratch_settings
from headrace.services.stack import Stack
from headrace.settings import Settings

ROWS = 100_000
TABLES = 100
REPEATS = 5
REST_SECONDS, IDLE_SECONDS = 30.0, 60.0
CORES_BAR, MEMORY_BAR, DEFINITIONS_BAR, UP_BAR = 0.1, 5.0, 2.0, 60.0
TIMEOUT, POLL_SECONDS = 300.0, 0.1
COMMANDS = (
    ("status", "--json"),
    ("plan",),
    ("explain", "dws.user_hour"),
    ("sql", "SELECT count(*) FROM dws.user_hour"),
)
COMMAND_BAR = 0.7

_LAYER = """CREATE MATERIALIZED TABLE dws.t{number:03} (PRIMARY KEY (user_id, logdate))
PARTITIONED BY (logdate)
WITH ('partition.fields.logdate.date-formatter' = 'yyyyMMddHH')
FRESHNESS = INTERVAL '10' SECOND
AS
SELECT user_id, logdate, COUNT(*) AS cnt, SUM(amount) AS amt
FROM dwd.orders
WHERE logdate >= ${{start_date}} AND logdate <= ${{end_date}} AND amount > {number}
GROUP BY user_id, logdate
"""

_IMPORT = "import time; t = time.monotonic(); import dagster; d = time.monotonic() - t\n" + (
    "from headrace.orchestration.definitions import defs\n"
    "assets = len(list(defs().resolve_all_asset_specs()))\n"
    "print(d, time.monotonic() - t, assets)"
)


def run(bench: Bench) -> list[Result]:
    """See `benchmarks.runner.Suite`."""
    return [*_definitions(bench), *_stack(bench)]


def _definitions(bench: Bench) -> list[Result]:
    """A process that loads the definitions of many tables, as Dagster's code server does."""
    project = bench.directory / "many"
    shutil.copytree(project_files("orders"), project)
    for number in range(TABLES - 3):
        (project / "layers" / "dws" / f"t{number:03}.sql").write_text(_LAYER.format(number=number), "utf-8")
    environment = {**os.environ, "HEADRACE_PROJECT": str(project)}
    dagster, total = [], []
    for number in range(REPEATS + 1):
        bench.tell(f"definitions of {TABLES} tables, {number} of {REPEATS}")
        told = subprocess.run(
            [sys.executable, "-c", _IMPORT], env=environment, capture_output=True, text=True, check=True
        )
        first, whole, assets = (json.loads(part) for part in told.stdout.split())
        if assets < TABLES:
            raise TransientError(f"{assets} assets of {TABLES} tables")
        if number:
            dagster.append(first)
            total.append(whole)
    return [
        *spread("importing Dagster alone", dagster),
        *spread(f"definitions of {TABLES} tables", total),
        less_than(f"loading definitions of {TABLES} tables", median(total), DEFINITIONS_BAR, "s"),
    ]


def _stack(bench: Bench) -> list[Result]:
    project = bench.directory / "project"
    shutil.copytree(project_files("orders"), project)
    with scratch_settings(project, home=bench.settings.home) as settings:
        stack = Stack(settings)
        try:
            bench.tell("starting the stack for the first time")
            stack.up(only=["postgres"])
            with OrdersDatabase(settings.postgres_dsn()) as database:
                database.create(bench.options.rows or ROWS)
                stack.up()
                stack.register_connectors()
                with GatewayClient(settings) as client:
                    _wait_for_more(client, than=0)
                stack.down()
                bench.tell("starting it again")
                begun = time.monotonic()
                stack.up()
                stack.register_connectors()
                up = time.monotonic() - begun
            with OrdersDatabase(settings.postgres_dsn()) as database, GatewayClient(settings) as client:
                _wait_for_more(client, than=0)
                before = _amount(client)
                database.update_some(0, first=100, count=1)
                _wait_for_more(client, than=before)
                streamed = time.monotonic() - begun
                bench.tell(f"up after {up:.1f} s, first row after {streamed:.1f} s; now it rests")
                equal = database.compare("dws_user_hour", client.query("SELECT * FROM dws.user_hour")).equal
            time.sleep(REST_SECONDS)
            running = stack.supervisor.processes().items()
            roots = {name: process.pid for name, process in running if process.pid is not None}
            idle = cores(roots, IDLE_SECONDS)
            memory = resident_bytes(roots.values()) / 2**30
            bench.tell("quick commands")
            commands = {words[0]: _command(words, settings) for words in COMMANDS}
        finally:
            stack.down()
    return [
        *(Result(f"{name}.idle", spent, "cores") for name, spent in idle.items()),
        Result("headrace up, warm", up, "s"),
        less_than("headrace up to the first streamed row, warm", streamed, UP_BAR, "s"),
        less_than("processor of the idle stack", sum(idle.values()), CORES_BAR, "cores"),
        less_than("resident memory of the whole stack", memory, MEMORY_BAR, "GiB"),
        *(less_than(f"headrace {name}, processor", s, COMMAND_BAR, "s") for name, s in commands.items()),
        at_least("tables equal to PostgreSQL", int(equal), 1),
    ]


def _command(words: Sequence[str], settings: Settings) -> float:
    """Processor seconds of a command on the running stack, the median of some."""
    spent = []
    for _ in range(REPEATS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command(words, settings)  # of `status` where something is late
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return median(spent)


def _wait_for_more(client: GatewayClient, than: float) -> None:
    """Until the sum of order 100's group is larger, which the tables may have to start for."""
    what = "a changed row of dws.user_hour"
    wait_for(
        what,
        lambda: None if _amount(client) > than else f"{what} is not there",
        timeout=TIMEOUT,
        interval=POLL_SECONDS,
    )


def _amount(client: GatewayClient) -> float:
    """The sum of the group of order 100; below zero where it is not there."""
    rows = client.query("SELECT amt FROM dws.user_hour WHERE user_id = 100 AND logdate = '2026110100'")
    return float(rows.column("amt")[0].as_py()) if rows.num_rows else -1.0
