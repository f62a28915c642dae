"""The comparison on a live stack: PostgreSQL, Kafka and Debezium for all, one contender at a time."""

from __future__ import annotations

import shutil
from collections.abc import Callable

from benchmarks.live.contender import Contender, peer
from benchmarks.live.headrace import Headrace
from benchmarks.live.orders_database import OrdersDatabase
from benchmarks.live.race import Race, Score, of_contender
from benchmarks.runner import Bench, project_files
from headrace.errors import HeadraceError
from headrace.services.scratch import scratch_settings
from headrace.services.stack import Stack
from headrace.sources.connect import ConnectorFile

ROWS = 500_000


def scores(bench: Bench, phases: Callable[[Race], None]) -> list[Score]:
    """Every contender's score, headrace's first. A peer that fails is scored as failed."""
    project = bench.directory / "project"
    shutil.copytree(project_files("orders"), project)
    with scratch_settings(project, home=bench.settings.home) as settings:
        contenders: list[Contender] = [Headrace(settings)]
        contenders += [peer(name, settings) for name in bench.options.peers]
        for contender in contenders:
            contender.install(bench.options.cache / contender.name, bench.tell)
        stack = Stack(settings)
        try:
            bench.tell("starting PostgreSQL, Kafka and Kafka Connect")
            stack.up(only=["connect"])
            return [_score(bench, stack, contender, phases) for contender in contenders]
        finally:
            stack.down()


def _score(bench: Bench, stack: Stack, contender: Contender, phases: Callable[[Race], None]) -> Score:
    [file] = stack.settings.connectors.glob("*.json")
    connector = ConnectorFile.read(file)
    if not isinstance(contender, Headrace):  # headrace's layer files name its connector
        connector = of_contender(connector, contender.name)
    place = stack.settings.data / "contenders" / contender.name
    place.mkdir(parents=True)
    with OrdersDatabase(stack.settings.postgres_dsn()) as database:
        race = Race(stack, database, contender, connector, place, bench.tell)
        bench.tell(f"{contender.name}: starting")
        try:
            with race.running(bench.options.rows or ROWS):
                bench.tell(f"{contender.name}: snapshot")
                race.snapshot()
                phases(race)
        except HeadraceError as error:
            if isinstance(contender, Headrace):
                raise
            race.score.failed = str(error)
    return race.score
