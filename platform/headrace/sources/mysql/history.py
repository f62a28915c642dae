"""How a connector of MySQL's kind enters Kafka for the history of its tables' columns.

It keeps that by clients of its own, which know nothing of how its worker enters Kafka. Whoever registers a
connector whose file leaves Kafka's address to the worker lets it have the rest from there, too: the
configuration that Connect's REST interface shows names variables, and no password.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.sources.stream.broker import Broker

if TYPE_CHECKING:
    from headrace.sources.connect import ConnectorFile

ADDRESS = "schema.history.internal.kafka.bootstrap.servers"
VARIABLE = "HEADRACE_SOURCE_KAFKA"
"""Of the worker: Kafka's address."""


def variables(broker: Broker) -> dict[str, str]:
    """Variables of the worker, beside the one of the address."""
    return {_variable(name): value for name, value in broker.security.jvm().items()}


def entering(file: ConnectorFile, broker: Broker) -> ConnectorFile:
    """The connector as it is to be registered. What its file says itself stays."""
    if file.config.get(ADDRESS) != _placeholder(VARIABLE):
        return file
    added = {
        f"schema.history.internal.{client}.{name}": _placeholder(_variable(name))
        for client in ("producer", "consumer")
        for name in broker.security.jvm()
    }
    return replace(file, config={**added, **file.config})


def _variable(name: str) -> str:
    return f"{VARIABLE}_{name.upper().replace('.', '_')}"


def _placeholder(variable: str) -> str:
    return f"${{env:{variable}}}"
