"""A stack for once: ports that nobody uses, data that are gone afterwards."""

from __future__ import annotations

import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headrace.services.programs import postgres
from headrace.settings import LOOPBACK, Settings

_DEFAULTS = {f.default for name, f in Settings.model_fields.items() if name.endswith("_port")}


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, all different, and none that is a setting's default."""
    probes: list[socket.socket] = []
    found: list[int] = []
    try:
        while len(found) < count:
            probes.append(socket.socket())
            probes[-1].bind((LOOPBACK, 0))
            port = probes[-1].getsockname()[1]
            if port not in _DEFAULTS:
                found.append(port)
        return found
    finally:
        for probe in probes:
            probe.close()


@contextmanager
def scratch_settings(project: Path, **settings: Any) -> Iterator[Settings]:
    """Settings with data of their own on free ports; the data are removed at the end.

    Args:
        settings: others to set.
    """
    # PostgreSQL runs as another user than root, and has to enter the folder.
    data = Path(tempfile.mkdtemp(prefix="headrace-"))
    data.chmod(0o711)
    names = [name for name in Settings.model_fields if name.endswith("_port")]
    ports: dict[str, Any] = dict(zip(names, free_ports(len(names)), strict=True))
    external = dict.fromkeys(("postgres_url", "kafka_bootstrap_servers", "connect_url"))
    own = Settings(project=project, data=data, **{**external, **ports, **settings})
    try:
        yield own
    finally:
        postgres.remove(own)
        shutil.rmtree(data)
