"""The first load of a large source: headrace's bulk snapshot between its two limits.

Debezium alone is what a user has otherwise: all rows as events in Kafka, in no table yet. `COPY … TO` a file
is what PostgreSQL itself needs to give the rows away.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import psycopg

from benchmarks.live.contender import STG
from benchmarks.live.headrace import NAMES
from benchmarks.live.orders_database import OrdersDatabase
from benchmarks.live.race import of_contender
from benchmarks.live.scores import ROWS
from benchmarks.report import Result, at_least, at_most, spread
from benchmarks.runner import Bench, project_files
from headrace.demo.waiting import wait_for
from headrace.errors import TerminalError
from headrace.gateway.client import GatewayClient
from headrace.results import LoadResult
from headrace.services.first_load import wait_for_tables
from headrace.services.scratch import scratch_settings
from headrace.services.stack import Stack
from headrace.settings import Settings
from headrace.sources.connect import ConnectClient, ConnectorFile
from headrace.sources.registration import create_topics
from headrace.sources.stream.broker import Broker
from headrace.sources.stream.topics import Topics

LARGER = 10
"""Times the rows of the chain that the first load has."""

RUNS = 3
TIMEOUT = 1800.0
_SUMS = "SELECT count(*), sum(order_id), sum(amount), sum(user_id * product_id) FROM {}"


def first_loads(bench: Bench) -> list[Result]:
    """Three loads of a new source, each of a new warehouse; Debezium alone once."""
    rows = LARGER * (bench.options.rows or ROWS)
    project = bench.directory / "first_load"
    shutil.copytree(project_files("orders"), project)
    copies: list[float] = []
    loads: list[float] = []
    alone = float("nan")
    equal = 0
    for number in range(RUNS):
        with scratch_settings(project, home=bench.settings.home, snapshot="bulk") as settings:
            stack = Stack(settings)
            try:
                stack.up(only=["connect", "warehouse"])
                dsn = settings.postgres_dsn()
                with OrdersDatabase(dsn) as database:
                    database.create(rows)
                copies.append(_copied(dsn))
                loads.append(_loaded(settings, rows))
                equal += _equal(settings)
                bench.tell(f"{rows:,} rows: COPY {copies[-1]:.1f} s, bulk snapshot {loads[-1]:.1f} s")
                if number == RUNS - 1:
                    stack.supervisor.stop("warehouse")
                    alone = _alone(settings, rows)
                    bench.tell(f"{rows:,} rows: Debezium alone {alone:.1f} s")
            finally:
                stack.down()
    return [Result("rows of the first load", rows), *compared(copies, loads, alone, equal)]


def compared(copies: Sequence[float], loads: Sequence[float], alone: float, equal: int) -> list[Result]:
    """Seconds of each way, and the bars.

    Args:
        equal: loads whose sums were right.
    """
    return [
        *spread("COPY to a file", copies),
        *spread("bulk snapshot", loads),
        Result("Debezium alone", alone, "s"),
        at_most("bulk snapshot, times COPY to a file", median(loads) / median(copies), 3, "times"),
        at_least("Debezium alone, times the bulk snapshot", alone / median(loads), 5, "times"),
        at_least("loads whose sums are PostgreSQL's", equal, len(loads)),
    ]


def _copied(dsn: str) -> float:
    with psycopg.connect(dsn, autocommit=True) as connection:
        [place] = connection.execute("SHOW data_directory").fetchone() or ("",)
        file = Path(place) / "orders.copy"
        begun = time.monotonic()
        connection.execute(f"COPY orders TO '{file}'".encode())
        taken = time.monotonic() - begun
        file.unlink()
        return taken


def _loaded(settings: Settings, rows: int) -> float:
    with GatewayClient(settings) as client:
        wait_for_tables(client)
        begun = time.monotonic()
        found = LoadResult.model_validate(client.run("LOAD SOURCE chain").result)
        if not found.loaded or found.rows != rows:
            raise TerminalError(f"the bulk snapshot took {found.rows:,} of {rows:,} rows: {found.reason}")
        return time.monotonic() - begun


def _equal(settings: Settings) -> bool:
    with (
        GatewayClient(settings) as client,
        psycopg.connect(settings.postgres_dsn(), autocommit=True) as connection,
    ):
        expected = connection.execute(_SUMS.format("orders").encode()).fetchone()
        found = client.query(_SUMS.format(NAMES[STG]))
        return tuple(column[0].as_py() for column in found.columns) == expected


def _alone(settings: Settings, rows: int) -> float:
    """Seconds from the registration of a connector until its topic has all rows."""
    [file] = settings.connectors.glob("*.json")
    connector = of_contender(ConnectorFile.read(file), "debezium")
    [topic] = connector.topics()
    create_topics(Broker.of(settings), [topic])
    topics = Topics.of(Broker.of(settings))

    def missing() -> str | None:
        count = rows - topics.ends([topic])[topic].get(0, 0)
        return f"{count:,} events" if count > 0 else None

    try:
        begun = time.monotonic()
        with ConnectClient(settings.connect_rest) as client:
            client.put_connector(connector)
        wait_for("all events", missing, timeout=TIMEOUT, interval=0.2)
        return time.monotonic() - begun
    finally:
        topics.close()
