"""Every service of a stack: what it needs first, its port, how long it may take, how it is prepared."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace

from headrace.java import find_java
from headrace.services.programs import dagster, kafka, postgres
from headrace.services.programs.program import Program
from headrace.services.status import ServiceName
from headrace.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Service:
    name: ServiceName
    prepare: Callable[[Settings], Program]
    ports: tuple[str, ...] = ()
    needs: tuple[ServiceName, ...] = ()
    start_seconds: int = 120
    external: str | None = None
    """The setting that names one of the user's own in its place."""

    def replaced(self, settings: Settings) -> bool:
        """Whether a service that this stack does not run does its work."""
        return self.external is not None and getattr(settings, self.external) is not None


def _broker(settings: Settings) -> Program:
    return kafka.prepare_broker(settings, find_java())


def _connect(settings: Settings) -> Program:
    return kafka.prepare_connect(settings, find_java())


def _warehouse(settings: Settings) -> Program:
    command = [sys.executable, "-m", "headrace.server", "--project", str(settings.project)]
    return Program(
        name="warehouse",
        command=command,
        directory=str(settings.project),
        environment=settings.variables()
        | settings.own_source_variables()
        | settings.target_variables()
        | kafka.entry(settings),
        stop_seconds=60,
    )


def _dagster(name: ServiceName) -> Callable[[Settings], Program]:
    def prepare(settings: Settings) -> Program:
        program = dagster.prepare(settings, name)
        return replace(program, environment={**settings.variables(), **program.environment})

    return prepare


SERVICES: dict[ServiceName, Service] = {
    service.name: service
    for service in (
        Service(
            name="postgres",
            prepare=postgres.prepare,
            ports=("postgres_port",),
            start_seconds=60,
            external="postgres_url",
        ),
        Service(
            name="kafka",
            prepare=_broker,
            ports=("kafka_port", "kafka_controller_port"),
            external="kafka_bootstrap_servers",
        ),
        Service(
            name="connect",
            prepare=_connect,
            ports=("connect_port",),
            needs=("kafka", "postgres"),
            external="connect_url",
        ),
        Service(
            name="warehouse",
            prepare=_warehouse,
            ports=("gateway_port", "spark_connect_port", "flight_sql_port"),
            needs=("kafka", "postgres"),
            start_seconds=180,
        ),
        Service(name="dagster-code", prepare=_dagster("dagster-code")),
        Service(
            name="dagster-webserver",
            prepare=_dagster("dagster-webserver"),
            ports=("dagster_port",),
            needs=("dagster-code",),
        ),
        Service(name="dagster-daemon", prepare=_dagster("dagster-daemon"), needs=("dagster-code",)),
    )
}


def with_needs(names: set[ServiceName]) -> set[ServiceName]:
    """These services and everything they need, in any depth."""
    closed = set(names)
    while missing := {need for name in closed for need in SERVICES[name].needs} - closed:
        closed |= missing
    return closed
