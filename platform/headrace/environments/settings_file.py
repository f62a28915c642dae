"""What an environment sets: everything outside is the production's, everything inside its own."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

from headrace.settings import ENVIRONMENT_FILE, LOOPBACK, Settings
from headrace.sources.stream.broker import Broker
from headrace.storage.object_path import ObjectPath

PORT_STEP = 100
"""Between the ports of two environments of a machine."""


def values_of(source: Settings, name: str) -> dict[str, Any]:
    """Settings of an environment, but for its ports.

    Args:
        source: of the one that is cloned. The environment reads its Kafka and its database, the latter by the
            role that its connectors have.
        name: of the environment.
    """
    inside = isinstance(source.warehouse, ObjectPath)
    found: dict[str, Any] = {
        "environment": name,
        "home": source.home,
        "warehouse_url": f"{source.warehouse}-{name}" if inside else None,
        "catalog_url": None,
        "standby": False,
        "serves": source.serves,
        "postgres_url": _database(source),
        "connect_url": source.connect_rest,
        "schema_registry_url": source.schema_registry_url,
        "kafka_bootstrap_servers": source.kafka_bootstrap,
        **Broker.of(source).security.settings(),
    }
    if inside:
        keys = ("s3_endpoint", "s3_region", "s3_access_key_id", "s3_secret_access_key")
        found |= {key: getattr(source, key) for key in keys}
    return found


def _database(source: Settings) -> str:
    if source.postgres_url is not None:
        return source.postgres_url
    variables = source.source_environment()
    user, password, host, port, database = (
        quote(variables[f"HEADRACE_SOURCE_{part}"], safe="")
        for part in ("USER", "PASSWORD", "HOST", "PORT", "DATABASE")
    )
    return f"postgresql://{user}:{password}@{host}:{port}/{database}"


def free_ports(source: Settings) -> dict[str, int]:
    """Ports of an environment beside the one that is cloned: as much higher, each, as all are free."""
    for step in count(1):
        ports = {name: port + step * PORT_STEP for name, port in source.all_ports.items()}
        if all(map(_is_free, ports.values())):
            return ports
    raise AssertionError("unreachable")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def write(project: Path, source: Settings, values: dict[str, Any]) -> Path:
    """Write them where `Settings.load` finds them, for the owner's eyes alone: there are passwords in it."""
    file = project / ENVIRONMENT_FILE
    file.parent.mkdir(exist_ok=True)
    file.touch(mode=0o600)
    made = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    told = f"# Made by `headrace clone {source.project}` at {made}, which writes it anew.\n"
    file.write_text(told + as_toml(values))
    return file


def as_toml(values: Mapping[str, Any]) -> str:
    """Settings as lines of a file; what is not set is blank, so that it counts and no other file's word."""
    return "".join(f"{name} = {_toml(value)}\n" for name, value in values.items())


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else json.dumps("" if value is None else str(value))
