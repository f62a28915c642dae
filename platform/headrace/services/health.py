"""Whether a service answers, asked the way its clients ask.

`python -m headrace.services.health SERVICE` is the health check of a container; with `--serving` a warehouse
server that stands by for another one is not healthy.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from headrace.services.programs import dagster, postgres
from headrace.services.status import ServiceName
from headrace.settings import Settings

PATIENCE = 3.0


class Unhealthy(Exception):
    """The service does not answer (yet); the message says how."""


class Failed(Unhealthy):
    """It says itself that it will not start: waiting longer is of no use."""


def check(settings: Settings, name: ServiceName) -> None:
    """Return where the service answers; raise Unhealthy where not. Takes at most a few seconds."""
    try:
        CHECKS[name](settings)
    except Unhealthy:
        raise
    except Exception as error:  # drivers raise their own kinds; all of them mean the same here
        raise Unhealthy(str(error).strip() or type(error).__name__) from error


def _postgres(settings: Settings) -> None:
    if settings.postgres_url is None:
        postgres.ensure_database(settings)
        return
    import psycopg

    with psycopg.connect(settings.postgres_url, connect_timeout=round(PATIENCE)) as connection:
        connection.execute("SELECT 1")


def _kafka(settings: Settings) -> None:
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import AdminClient

    from headrace.sources.stream.broker import Broker

    if settings.kafka_bootstrap_servers is None and not settings.embedded_kafka_password:
        raise Unhealthy(f"there is no password in {settings.kafka_password}. Next: {_mend_login(settings)}")
    # A refused connection makes librdkafka retry until its time-out; ask the port first.
    _answers(settings.kafka_addresses)
    said: list[KafkaError] = []
    listening: dict[str, Any] = {"error_cb": said.append}
    client = AdminClient(Broker.of(settings).client() | listening)
    try:
        brokers = client.list_topics(timeout=PATIENCE).brokers
    except KafkaException:
        client.poll(0)  # what it was told meanwhile
        refused = [error.str() for error in said if error.code() == KafkaError._AUTHENTICATION]
        if not refused:
            raise
        raise Unhealthy(f"{refused[0]}. Next: {_mend_login(settings)}") from None
    if not brokers:
        raise Unhealthy("the broker is not registered yet")


def _mend_login(settings: Settings) -> str:
    if settings.kafka_bootstrap_servers is None:
        return "`headrace up`, which gives broker and clients the same password"
    return "set `kafka_sasl_username` and `kafka_sasl_password`, then `headrace up`"


def _answers(addresses: list[tuple[str, int]]) -> None:
    """Raise what the last one said where none accepts a connection: any broker leads to the others."""
    for last, address in enumerate(addresses, start=1 - len(addresses)):
        try:
            with socket.create_connection(address, timeout=PATIENCE):
                return
        except OSError as error:
            if last == 0:
                raise Unhealthy(f"{address[0]}:{address[1]}: {error}") from error


def _connect(settings: Settings) -> None:
    from headrace.sources.connect import ConnectClient

    with ConnectClient(settings.connect_rest, timeout=PATIENCE) as client:
        client.check("/health" if settings.connect_url is None else "/")


def _http(url: str) -> None:
    response = _asked(url)
    if not response.is_success:
        raise Unhealthy(f"{url} answers {response.status_code}")


def _asked(url: str) -> httpx.Response:
    """
    Args:
        url: of plain HTTP: loading certificates, which would not be used, takes 0.1 s of a processor.
    """
    # A proxy from the environment must not see a loopback call.
    return httpx.get(url, timeout=PATIENCE, trust_env=False, verify=False)


def check_serving(settings: Settings) -> None:
    """Raise Unhealthy where the warehouse server stands by for another one."""
    answer = _asked(f"{settings.gateway_url}/health").json()
    if answer["state"] == "standby":
        raise Unhealthy(f"it stands by for {answer['serving']}")


def _warehouse(settings: Settings) -> None:
    response = _asked(f"{settings.gateway_url}/health")
    answer = response.json()
    if answer["state"] == "failed":
        raise Failed(str(answer["error"]))
    if answer["state"] == "standby":
        return
    if not response.is_success:
        raise Unhealthy(f"the warehouse server is {answer['state']}")


def check_connectors(settings: Settings) -> None:
    """Raise Unhealthy where a connector of what is served failed: Connect itself goes on without it."""
    from headrace.sources.connect import ConnectClient

    with ConnectClient(settings.connect_rest) as client:
        for status in map(client.status, filter(settings.keeps, client.names())):
            if status.state == "FAILED":
                raise Unhealthy(
                    f"connector `{status.name}` failed: {status.cause}; mend it, then `headrace up`"
                )


def _dagster_code(settings: Settings) -> None:
    import grpc
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    with grpc.insecure_channel(f"unix:{dagster.code_socket(settings)}") as channel:
        request = health_pb2.HealthCheckRequest(service="DagsterApi")
        answer = health_pb2_grpc.HealthStub(channel).Check(request, timeout=PATIENCE)
    if answer.status != health_pb2.HealthCheckResponse.SERVING:
        raise Unhealthy("the code server still loads the definitions")


def _alive(settings: Settings) -> None:
    """The daemon serves nobody; that its process stays up is all there is to see from outside."""


def check_daemon(settings: Settings) -> None:
    """Raise Unhealthy where Dagster has not heard of its daemon lately: for whoever sees no process of it."""
    query = "{ instance { daemonHealth { allDaemonStatuses { daemonType healthy required } } } }"
    url = f"{settings.dagster_url}/graphql"
    answer = httpx.post(url, json={"query": query}, timeout=PATIENCE, trust_env=False, verify=False).json()
    known = answer["data"]["instance"]["daemonHealth"]["allDaemonStatuses"]
    if silent := [daemon["daemonType"] for daemon in known if daemon["required"] and not daemon["healthy"]]:
        raise Unhealthy(f"Dagster has not heard of {', '.join(silent)} lately")


CHECKS: dict[ServiceName, Callable[[Settings], None]] = {
    "postgres": _postgres,
    "kafka": _kafka,
    "connect": _connect,
    "warehouse": _warehouse,
    "dagster-code": _dagster_code,
    "dagster-webserver": lambda settings: _http(f"{settings.dagster_url}/server_info"),
    "dagster-daemon": _alive,
}


def main(name: str, *, serving: bool = False) -> int:
    """0 where the service answers.

    Args:
        serving: and where it serves, rather than standing by.
    """
    settings = Settings.load(Path(os.environ.get("HEADRACE_PROJECT", ".")))
    try:
        check(settings, next(known for known in CHECKS if known == name))
        if serving:
            check_serving(settings)
    except Unhealthy as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], serving=sys.argv[2:] == ["--serving"]))
