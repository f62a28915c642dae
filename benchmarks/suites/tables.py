"""The suite `tables`: the same small chain many times over. What does it cost to have very many tables?"""

from __future__ import annotations

import time

import psycopg
from dagster import DagsterInstance

from benchmarks.data.many import ManyTables
from benchmarks.live.processes import command, cores
from benchmarks.report import Result, at_least, less_than
from benchmarks.runner import Bench
from headrace.demo.memory import resident_bytes
from headrace.demo.waiting import wait_for
from headrace.errors import TransientError
from headrace.gateway.client import GatewayClient
from headrace.orchestration.streams import INTERVAL_SECONDS
from headrace.results import TableStatus
from headrace.services.programs.dagster import home
from headrace.services.scratch import scratch_settings
from headrace.services.stack import Stack
from headrace.settings import Settings
from headrace.spec.model import RefreshMode

COUNTS = (15, 100, 500)
PLAN_BAR, UP_BAR, CORES_BAR, FRESH_BAR = 5.0, 90.0, 0.3, 10.0
"""Of the largest count: seconds, seconds, processors, and what the first chain declares."""

REST_SECONDS, IDLE_SECONDS = 2.5 * INTERVAL_SECONDS, 60.0
TIMEOUT, POLL_SECONDS, STATUS_SECONDS = 1_200.0, 0.2, 2.0
MEMORY = "3g"


def run(bench: Bench) -> list[Result]:
    """See `benchmarks.runner.Suite`."""
    counts = COUNTS if bench.options.tables is None else (bench.options.tables,)
    results: list[Result] = []
    for count in counts:
        results += _of(bench, ManyTables(count), barred=count == max(COUNTS))
    return results


def _of(bench: Bench, many: ManyTables, *, barred: bool) -> list[Result]:
    project = bench.directory / str(many.count)
    many.write(project)

    def tell(text: str) -> None:
        bench.tell(f"{many.count} tables: {text}")

    with scratch_settings(project, home=bench.settings.home, driver_memory=MEMORY) as settings:
        stack = Stack(settings)
        try:
            tell("planning")
            plan = _plan(settings)
            tell("starting for the first time")
            stack.up(only=["postgres"])
            many.create(settings.postgres_dsn())
            first = _up(stack, many)
            stack.down()
            tell(f"loaded after {first:.0f} s, starting again")
            again = _up(stack, many)
            with GatewayClient(settings) as client:
                shown = _change(settings, client, many)
                tell(f"up after {again:.1f} s, a change shown after {shown:.1f} s; Dagster is told")
                told = _told(settings)
                tell(f"Dagster has been told after {told:.0f} s; now it rests")
                running = stack.supervisor.processes().items()
                roots = {name: process.pid for name, process in running if process.pid is not None}
                spent = cores(roots, IDLE_SECONDS)
                tell("at rest: " + ", ".join(f"{name} {of:.3f}" for name, of in spent.items()) + " cores")
                idle = sum(spent.values())
                memory = resident_bytes(roots.values()) / 2**30
                late = [s.table for s in client.status() if s.late]
        finally:
            stack.down()
    found = [
        ("plan", plan, "s", PLAN_BAR),
        ("headrace up until all tables run", again, "s", UP_BAR),
        ("one change until its dws table shows it", shown, "s", FRESH_BAR),
        ("processor of the idle stack", idle, "cores", CORES_BAR),
    ]
    name = f"{many.count} tables"
    return [
        Result(f"{name}.first start until all is loaded", first, "s"),
        Result(f"{name}.after that until Dagster has been told of all tables", told, "s"),
        Result(f"{name}.resident memory of the whole stack", memory, "GiB"),
        *(
            less_than(f"{name}.{what}", value, bar, unit) if barred else Result(f"{name}.{what}", value, unit)
            for what, value, unit, bar in found
        ),
        at_least(f"{name}.tables that keep their freshness", many.count - len(late), many.count),
    ]


def _plan(settings: Settings) -> float:
    """Seconds of `headrace plan`, a process of its own."""
    begun = time.monotonic()
    done = command(["plan"], settings)
    if done.returncode:
        raise TransientError(f"`headrace plan` failed: {done.stderr[-500:]}")
    return time.monotonic() - begun


def _up(stack: Stack, many: ManyTables) -> float:
    """Seconds until every table runs and lacks nothing."""
    begun = time.monotonic()
    stack.up()
    stack.register_connectors()
    with GatewayClient(stack.settings) as client:
        wait_for("all tables", lambda: _missing(client, many), timeout=TIMEOUT, interval=STATUS_SECONDS)
    return time.monotonic() - begun


def _missing(client: GatewayClient, many: ManyTables) -> str | None:
    try:
        found = client.status()
    except TransientError as error:
        return str(error)
    ready = sum(_is_ready(status, many) for status in found)
    return None if ready == many.count else f"{ready} of {many.count} tables"


def _is_ready(status: TableStatus, many: ManyTables) -> bool:
    """A table that measurements have put on a schedule waits for its turn."""
    loaded = not status.table.startswith("stg.") or status.rows == many.rows
    waits = status.mode == RefreshMode.CONTINUOUS and bool(status.lag)
    return status.state == "RUNNING" and loaded and not waits


def _told(settings: Settings) -> float:
    """Seconds until Dagster's sensor has nothing more to report, after which nothing happens any more."""
    begun = last = time.monotonic()
    with DagsterInstance.from_config(str(home(settings))) as instance:
        events = instance.event_log_storage.get_maximum_record_id()
        while (now := time.monotonic()) - last < REST_SECONDS:
            if now - begun > TIMEOUT:
                raise TransientError(f"Dagster is still told of tables after {TIMEOUT:.0f} s")
            time.sleep(STATUS_SECONDS)
            if (newer := instance.event_log_storage.get_maximum_record_id()) != events:
                events, last = newer, time.monotonic()
    return last - begun


def _change(settings: Settings, client: GatewayClient, many: ManyTables) -> float:
    """Seconds from a commit at the source to its row in a dws table, of the first chain."""
    name = many.chains[0]
    key = "user_id = 7 AND logdate = '20261101'"
    before = client.query(f"SELECT amt FROM dws.{name}_0 WHERE {key}").column("amt")[0].as_py()
    with psycopg.connect(settings.postgres_dsn(), autocommit=True) as source:
        source.execute(f"UPDATE {name} SET amount = amount + 5 WHERE id = 7".encode())
    begun = time.monotonic()

    def missing() -> str | None:
        now = client.query(f"SELECT amt FROM dws.{name}_0 WHERE {key}").column("amt")[0].as_py()
        return None if now == before + 5 else "the change is not there"

    wait_for("the change", missing, timeout=TIMEOUT, interval=POLL_SECONDS)
    return time.monotonic() - begun
